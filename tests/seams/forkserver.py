"""What tests use of the forkserver."""

from seams import lazily

__getattr__ = lazily(
    {
        "procession.forkserver": "boot",
        "procession.forkserver.observing": "Observer",
        "procession.forkserver.record": "record",
        "procession.system.facts": "read_facts",
        "procession.forkserver.unchanged": "reason_against",
        "procession.forkserver.stamps": "clock is_sure",
        "procession.forkserver.forking": "Forking",
        "procession.forkserver.protocol": "Receiver ancillary encode send",
    }
)
