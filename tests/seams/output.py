"""What tests use of the output of ranks."""

from seams import lazily

__getattr__ = lazily(
    {
        "procession.output": "activity escape follow",
        "procession.output.console": "Console",
        "procession.output.escape": "harmless harmless_text shown unfinished",
        "procession.output.feed": "Feed Source",
        "procession.output.follow": "Follower",
        "procession.output.lines": "LineSplitter",
        "procession.output.rankfiles": "read_error_file",
        "procession.output.tail": "Tail last_line last_line_of",
    }
)
