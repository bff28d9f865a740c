"""What tests use of jobs over several machines."""

from seams import lazily

__getattr__ = lazily(
    {
        "procession.engines.contract": (
            "NAMES NodeCommand EngineError INVITATION SLOT Said SlotGone choose take_invitation"
        ),
        "procession.api.jobs": "make_job",
        "procession.rules.jobwords": (
            "Decided Drop Happened JobArm JobDeadline JobDeadlineKind JobPhase JobStop "
            "JobStopWanted Launch Leaves Meet Met Slot SlotEvent"
        ),
        "procession.rules.joblife": "IllegalEvent JobLife",
        "procession.driver.jobend": "Clocks NodePart job_end",
        "procession.rules.quorum": "World can_succeed",
        "procession.engines.will": "Heir Will read_heir read_will",
        "procession.prepare.work": "Share divide",
        "procession.engines.noderun": "moved place",
    }
)
