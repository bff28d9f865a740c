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
CODE is in brackets at the end of a message: [P101]. You can also paste the whole message, or
search for words: procession explain out of memory. Without arguments, all codes are listed.

exit codes: 0; 1 if nothing was found; 2 for a wrong command line.
"""
PARSER = parser_of("explain", "[CODE | MESSAGE | WORDS ...]", EPILOG)


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
        return _search(rest, known)
    title, why, cure = known[code]
    say_out(f"{code}: {title}\n\nwhy:\n{_filled(why)}\n\nwhat to do:\n{_filled(cure)}")
    return 0


def _search(words: list[str], known: dict[str, list[str]]) -> int:
    """List the entries that have most of the words, first those with titles that have them."""
    given = " ".join(words).lower().split()
    wanted = [rf"\b{re.escape(w)}" for w in given if len(w) > 2]

    def count(text: str) -> int:
        return sum(re.search(each, text.lower()) is not None for each in wanted)

    counts = {code: count(" ".join(entry)) for code, entry in known.items()}
    most = max(counts.values())
    found = {code: known[code] for code, n in counts.items() if n == most > 0}
    found = dict(sorted(found.items(), key=lambda each: -count(each[1][0])))
    if not found:
        said = f"no code or entry has {' '.join(words)!r}; procession explain lists all codes"
        say(f"procession explain: error: {said}\n", sys.stderr)
        return 1
    say_out("".join(f"{code}  {entry[0]}\n" for code, entry in found.items()))
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
