"""What tests use inside of the face for torch elastic."""

from seams import lazily

__getattr__ = lazily(
    {
        "procession": "elastic",
        "procession.elastic": "api context errors tail_log",
        "procession.elastic.plan": "placement_of",
    }
)
