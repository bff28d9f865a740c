"""What tests use of the live view and the line of status."""

from seams import lazily

__getattr__ = lazily(
    {
        "procession.view.draw": "Drawing",
        "procession.view.rows": "fold oddities",
        "procession.view.seen": "Pace Seen Sight Whole",
        "procession.view.usage": "Sampler Usage gpu_memory",
        "procession.view.words": "ending status_line",
    }
)
