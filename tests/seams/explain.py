"""What tests use of reports and stacks."""

from seams import lazily

__getattr__ = lazily(
    {
        "procession.explain": "ends",
        "procession.explain.messages": "OUTCOMES code_of code_of_end entries noted with_code",
        "procession.explain.messages.ends": "ENDS",
        "procession.explain.messages.machines": "MACHINES",
        "procession.explain.messages.notes": "NOTES",
        "procession.explain.messages.requests": "REQUESTS",
        "procession.explain.messages.runs": "RUNS",
        "procession.explain.messages.values": "VALUES",
        "procession.explain.records": "RankRecord",
        "procession.explain.report": "FOLD_ABOVE FULL_TRACEBACKS format_report headline "
        "headline_of",
        "procession.explain.summary": "report_of",
        "procession.explain.stacks": "merge outside taking",
        "procession.explain.stacks.text": "Stack Thread main_thread own_frames read_dump stack_of",
    }
)
