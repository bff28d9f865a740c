"""What tests use of the forkserver."""

from seams import lazily

__getattr__ = lazily(
    {
        "procession.forkserver.observing": "Observer",
        "procession.forkserver.record": "record",
        "procession.forkserver.unchanged": "reason_against",
        "procession.forkserver.stamps": "clock",
        "procession.forkserver.forking": "Forking",
        "procession.forkserver.protocol": "Receiver ancillary encode",
    }
)
