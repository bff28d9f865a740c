"""What tests use of what runs in every rank."""

from seams import lazily

__getattr__ = lazily(
    {
        "procession.worker": "board ending outcome stackfile",
        "procession.worker.board": "PAGE Page VARIABLE read_stopping",
        "procession.worker.description": "describe",
        "procession.worker.outcome": "DONE ERROR FAILED HEADER INLINE VALUE OutcomeChannel",
    }
)
