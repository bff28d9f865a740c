"""What tests use inside of the face for torch_xla."""

from seams import lazily

__getattr__ = lazily(
    {
        "procession.xla": "pjrt xrt",
    }
)
