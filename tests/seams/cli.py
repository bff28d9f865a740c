"""What tests use of the command."""

from seams import lazily

__getattr__ = lazily(
    {
        "procession.cli": "completion counts doctor main options readers where",
        "procession.cli.commands": "COMMANDS",
        "procession.cli.completion": "parsers",
        "procession.cli.words": "Option",
        "procession.cli.preemption": "divided read_preemption seconds_left",
        "procession.cli.request": "make_parser make_request read_line",
        "procession.cli.signals": "RunSignals",
        "procession.cli.starters": "read_started",
    }
)
