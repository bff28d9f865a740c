"""What tests use of the output of ranks."""

from seams import lazily

__getattr__ = lazily(
    {
        "procession.output": "activity follow",
        "procession.output.console": "Console",
        "procession.output.feed": "Feed Source",
        "procession.output.fold": "Fold",
        "procession.output.folding": "FoldingScreen",
        "procession.output.follow": "Follower",
        "procession.output.gate": "Gate",
        "procession.output.rankfiles": "end_of read_error_file",
        "procession.output.text": (
            "LineSplitter Tail harmless harmless_text last_line last_lines shown unfinished"
        ),
    }
)
