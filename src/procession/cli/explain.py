"""`procession explain CODE`: what a message means, why it comes, and what to do."""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from importlib.resources import files

from procession.cli.commands import parser_of
from procession.cli.say import say, say_out

EPILOG = """\
CODE is in brackets at the end of a message: [P101]. A message with its code will do, too.
Without a word, all codes are listed.

exit codes: 0; 1 for an unknown code; 2 for a wrong command line.
"""
PARSER = parser_of("explain", "[CODE | MESSAGE ...]", EPILOG)


def main(words: list[str]) -> int:
    """Print the entry; returns the exit code."""
    _, rest = PARSER.read(words)
    known = entries()
    if not rest:
        say_out("".join(f"{code}  {entry[0]}\n" for code, entry in known.items()))
        return 0
    text = " ".join(rest)
    code = next((c for c in re.findall(r"\bP\d{3}\b", text.upper()) if c in known), "")
    if not code:
        say(f"procession explain: no known code in {text!r}; without a word, all codes are "
            "listed\n", sys.stderr)  # fmt: skip
        return 1
    title, why, cure = known[code]
    say_out(f"{code}: {title}\n\nwhy:\n{_filled(why)}\n\nwhat to do:\n{_filled(cure)}")
    return 0


def entries() -> dict[str, list[str]]:
    """Give what `explain/codes.md` has by code: a title, why it happens, and what to do."""
    text = files("procession.explain").joinpath("codes.md").read_text("utf-8")
    parts = (each.strip().partition(": ") for each in f"\n{text}".split("\n## ")[1:])
    return {code: entry.split("\n\n") for code, _, entry in parts}


def _filled(text: str) -> str:
    """Fill the lines of a paragraph, for this terminal."""
    width = min(shutil.get_terminal_size().columns, 100)
    return textwrap.indent(textwrap.fill(text, width - 2, break_on_hyphens=False), "  ")
