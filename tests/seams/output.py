"""What tests use of the output of ranks."""

from seams import lazily

__getattr__ = lazily(
    {
        "procession.output": "activity follow",
        "procession.output.console": "Console",
        "procession.output.escape": "harmless harmless_text shown unfinished",
        "procession.output.feed": "Feed Source",
        "procession.output.follow": "Follower",
        "procession.output.lines": "LineSplitter Tail end_of last_line",
        "procession.output.rankfiles": "read_error_file",
    }
)
