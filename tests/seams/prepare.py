"""What tests use of what is prepared for ranks."""

from seams import lazily

__getattr__ = lazily(
    {
        "procession.prepare": "results",
        "procession.prepare.resources": "Board",
        "procession.prepare.placing": "Places place",
        "procession.prepare.results": "OF_COMMAND OF_FUNCTION OF_SCRIPT Frames",
    }
)
