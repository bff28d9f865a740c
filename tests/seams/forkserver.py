"""What tests use of the forkserver."""

from seams import lazily

__getattr__ = lazily(
    {
        "procession.forkserver": "beforestop stacks",
        "procession.forkserver.beforestop": "BeforeStop",
        "procession.forkserver.observing": "Observer",
        "procession.forkserver.record": "record",
        "procession.forkserver.unchanged": "reason_against",
        "procession.forkserver.stamps": "clock",
        "procession.forkserver.channels": "Channel",
        "procession.forkserver.forking": "Forking",
        "procession.forkserver.limits": "Limits",
        "procession.forkserver.protocol": "Receiver Sender ancillary encode",
    }
)
