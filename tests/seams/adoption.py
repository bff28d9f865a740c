"""What tests use inside of the replacement of torch's launchers."""

from seams import lazily

__getattr__ = lazily(
    {
        "procession.elastic.ranks": "as_python_program",
    }
)
