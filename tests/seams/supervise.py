"""What tests use of supervising a group."""

from seams import lazily

__getattr__ = lazily(
    {
        "procession.supervise": (
            "conclusion deciding exits hangs journal lastlook limits link ranks supervisor"
        ),
        "procession.explain.records": "CRASHES Sources",
        "procession.supervise.ranks": "Ranks",
        "procession.supervise.supervisor": "Supervisor",
    }
)
