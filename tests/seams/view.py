"""What tests use of the live view and the line of status."""

from seams import lazily

__getattr__ = lazily(
    {
        "procession.view.draw": "Drawing",
        "procession.view.pace": "Pace",
        "procession.view.phrases": "plain",
        "procession.view.rows": "ODDITIES Row fold oddities",
        "procession.view.seen": "Seen Usage Whole see",
        "procession.view.status": "status_line",
        "procession.view.usage": "Gpus Sampler",
    }
)
