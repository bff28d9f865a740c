"""What tests use of supervising a group."""

from seams import lazily

__getattr__ = lazily(
    {
        "procession.supervise": "journal lastlook plugins",
        "procession.supervise.exits": "Exits Sources",
        "procession.supervise.journal": "LATE_SECONDS",
        "procession.supervise.ranks": "Ranks",
    }
)
