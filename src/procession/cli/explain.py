"""`procession explain CODE`: what a message means, why it comes, and what to do."""

from __future__ import annotations

import shutil
import sys
import textwrap

from procession.cli.commands import COMMANDS
from procession.cli.say import say
from procession.cli.words import Parser
from procession.explain.messages import code_of, entries
from procession.explain.messages.entry import Entry

PARSER = Parser(
    "procession explain",
    usage="procession explain [CODE | MESSAGE ...]",
    description=f"{COMMANDS['explain'].capitalize()}.\n\n"
    "CODE stands in brackets at the end of a message: [P005]. The message itself will do, too.\n"
    "Without a word, all codes are listed.",
    epilog="exit codes: 0; 1 if nothing is known about it; 2 for a wrong command line.",
)


def main(words: list[str]) -> int:
    """Print the entry; returns the exit code."""
    _, rest = PARSER.read(words)
    known = entries()
    if not rest:
        say("".join(f"{code}  {entry.title}\n" for code, entry in known.items()), sys.stdout)
        return 0
    text = " ".join(rest)
    code = text.strip("[]").upper()
    if code not in known:
        code = next((c for c in known if f"[{c}]" in text), "") or code_of(text)
    if not code:
        say(f"procession explain: nothing is known about {text!r}; without a word, all codes are "
            "listed\n", sys.stderr)  # fmt: skip
        return 1
    say(told(known[code], min(shutil.get_terminal_size().columns, 100)), sys.stdout)
    return 0


def told(entry: Entry, width: int) -> str:
    """Write an entry for a terminal of that width."""
    parts = [f"{entry.code}: {entry.title}"]
    for name, text in (("why", entry.cause), ("what to do", entry.cure)):
        body = textwrap.fill(
            text, width, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False
        )
        parts.append(f"{name}:\n{body}")
    return "\n\n".join(parts) + "\n"
