"""What tests use of jobs over several machines."""

from seams import lazily

__getattr__ = lazily(
    {
        "procession.engines.clocks": "Clocks",
        "procession.engines.contract": (
            "NodeCommand EngineError EngineGone INVITATION SLOT Said SlotGone"
        ),
        "procession.engines.invitation": "take_invitation",
        "procession.engines.launching": "make_job",
        "procession.engines.jobwords": (
            "Arm Deadline DeadlineKind Decided Drop End Happened JobPhase Launch Leaves Meet Met "
            "Slot SlotEvent Stop StopWanted"
        ),
        "procession.engines.lifecycle": "IllegalEvent JobLife",
        "procession.engines.outcome": "NodePart job_end",
        "procession.engines.quorum": "World can_succeed",
        "procession.engines.will": "Heir Will read_heir read_will",
        "procession.engines.registry": "NAMES choose",
        "procession.engines.work": "Share divide",
        "procession.engines.workingcopy": "moved place",
    }
)
