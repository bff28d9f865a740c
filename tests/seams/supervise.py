"""What tests use of supervising a group."""

from seams import lazily

__getattr__ = lazily(
    {
        "procession.supervise": "journal",
    }
)
