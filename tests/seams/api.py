"""What tests use below `run` and `start`."""

from seams import lazily

__getattr__ = lazily(
    {
        "procession.group.making": "start_spec",
    }
)
