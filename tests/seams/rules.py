"""What tests use of the rules: lifecycle and restarts."""

from seams import lazily

__getattr__ = lazily(
    {
        "procession.rules": "lifecycle tables",
        "procession.rules.lifecycle": "IllegalEvent Lifecycle RankState",
        "procession.rules.messages": (
            "Arm Cancel Deadline End RankEvent Signal Spawn StopWanted Sweep Swept event_of"
        ),
        "procession.rules.restarting": "Decision Restarts codes_of place_of",
        "procession.rules.tables": (
            "DeadlineKind Ended GONE GroupEvent Phase Stage TABLES WORKER_TABLE Worker WorkerEvent"
        ),
    }
)
