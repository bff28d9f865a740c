"""What tests use of supervising a group."""

from seams import lazily

__getattr__ = lazily(
    {
        "procession.supervise": "journal lastlook link",
        "procession.explain.records": "CRASHES Sources",
        "procession.supervise.ranks": "Ranks",
    }
)
