"""What tests use of what drives a group."""

from seams import lazily

__getattr__ = lazily(
    {
        "procession.driver": "journal",
    }
)
