"""What tests use of jobs over several machines."""

from seams import lazily

__getattr__ = lazily(
    {
        "procession.engines.agentevents": "AgentEvents",
        "procession.engines.clocks": "Clocks",
        "procession.engines.contract": (
            "AgentCommand EngineError EngineGone INVITATION SLOT Said SlotGone"
        ),
        "procession.engines.invitation": "Invitation take_invitation",
        "procession.engines.jobstate": "JobState",
        "procession.engines.launching": "make_job",
        "procession.engines.jobwords": (
            "Arm Deadline DeadlineKind Decide Decided Dismiss Drop End Happened JOB_TABLE JobPhase "
            "Launch Leaves Meet Met Replace Slot SlotEvent Stop StopWanted"
        ),
        "procession.engines.lifecycle": "IllegalEvent JobLife",
        "procession.engines.outcome": "NodePart job_end",
        "procession.engines.plain": "plain_group",
        "procession.engines.printer": "AT_ONCE Printer",
        "procession.engines.quorum": "World can_succeed",
        "procession.engines.will": "Heir Will read_heir read_will",
        "procession.engines.registry": "NAMES",
        "procession.engines.work": "Share divide",
        "procession.engines.workingcopy": "moved place",
    }
)
