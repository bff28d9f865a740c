"""What tests use of what runs in every rank."""

from seams import lazily

__getattr__ = lazily(
    {
        "procession.worker": "board linger outcome",
        "procession.worker.board": "PAGE Page VARIABLE read_stopping",
        "procession.worker.description": "describe encoded",
        "procession.worker.frames": "DONE ERROR FAILED HEADER VALUE",
        "procession.worker.outcome": "OutcomeChannel",
    }
)
