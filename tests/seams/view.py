"""What tests use of the live view and the line of status."""

from seams import lazily

__getattr__ = lazily(
    {
        "procession.view.draw": "Drawing",
        "procession.view.seen": "Pace Sampler RankView Sight Usage Whole gpu_memory",
        "procession.view.words": "ending fold oddities status_line",
    }
)
