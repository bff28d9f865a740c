"""What tests use of reports and stacks."""

from seams import lazily

__getattr__ = lazily(
    {
        "procession.cli.explain": "entries",
        "procession.explain.records": "RankRecord",
        "procession.explain.report": (
            "CODES FOLD_ABOVE OUT_OF_MEMORY format_report headline headline_of"
        ),
        "procession.explain.summary": "report_of",
        "procession.explain.stacks": "merge outside",
        "procession.explain.stacks.text": "Stack stack_of together with_first",
    }
)
