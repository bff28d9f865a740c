"""What tests use of jobs over several machines."""

from seams import lazily

__getattr__ = lazily(
    {
        "procession.driver.clocks": "Clocks",
        "procession.engines.contract": (
            "NodeCommand EngineError EngineGone INVITATION SLOT Said SlotGone"
        ),
        "procession.engines.invitation": "take_invitation",
        "procession.api.jobs": "make_job",
        "procession.rules.jobwords": (
            "Arm Deadline DeadlineKind Decided Drop Happened JobPhase Launch Leaves Meet Met "
            "Slot SlotEvent Stop StopWanted"
        ),
        "procession.rules.joblife": "IllegalEvent JobLife",
        "procession.driver.jobend": "NodePart job_end",
        "procession.rules.quorum": "World can_succeed",
        "procession.engines.will": "Heir Will read_heir read_will",
        "procession.engines.registry": "NAMES choose",
        "procession.prepare.work": "Share divide",
        "procession.engines.workingcopy": "moved place",
    }
)
