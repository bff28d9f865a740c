"""What tests use of the command."""

from seams import lazily

__getattr__ = lazily(
    {
        "procession.cli": "completion doctor main options programs readers where",
        "procession.cli.commands": "COMMANDS",
        "procession.cli.completion": "parsers",
        "procession.cli.words": "Option",
        "procession.cli.options": "make_parser",
        "procession.cli.request": "read_request",
        "procession.cli.signals": "RunSignals divided read_preemption seconds_left",
        "procession.cli.location": "read_started",
    }
)
