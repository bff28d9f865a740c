"""Messages by code: what each means, why it comes, and what to do.

A message carries its code at its end, in brackets: `[P005]`. `procession explain P005` prints the
entry, and docs/troubleshooting.md has all of them.

Code that raises an error does not know its code. A refusal gets the code where it is printed, by
the phrases of its entry; the end of a rank gets it by its outcome. Rejected: an argument at each of
some 400 places that raise. It would put a number into every exception that people catch in Python,
and a new message would have none. Here a new message has at least `P001`, the code of all refusals.
tests/explain/test_codes.py checks that each phrase still occurs in the source.

May import values. Start reading at `code_of`.
"""

from __future__ import annotations

from procession.explain.messages.entry import Entry
from procession.values.errors import Outcome, RankEnd

GENERAL = "P001"  # of a refusal that has no entry of its own

OUTCOMES = {
    Outcome.RAISED: "P101",
    Outcome.EXITED: "P102",
    Outcome.SIGNALLED: "P103",
    Outcome.HUNG: "P105",
    Outcome.NOT_STARTED: "P106",
    Outcome.UNPICKLABLE: "P107",
    Outcome.NO_VALUE: "P108",
    Outcome.TORN_VALUE: "P109",
    Outcome.INTERRUPTED: "P110",
    Outcome.LOST: "P111",
    Outcome.NODE_LOST: "P112",
    Outcome.ORPHANED: "P113",
    Outcome.UNKNOWN: "P114",
}
OUT_OF_MEMORY = "P104"


def entries() -> dict[str, Entry]:
    """Give all entries by their codes, in order."""
    from procession.explain.messages.ends import ENDS
    from procession.explain.messages.machines import MACHINES
    from procession.explain.messages.requests import REQUESTS
    from procession.explain.messages.runs import RUNS

    return {entry.code: entry for entry in (*REQUESTS, *ENDS, *MACHINES, *RUNS)}


def code_of(message: str) -> str:
    """Give the code of a message by its text, "" if no entry knows it.

    Of several entries, it is the one whose phrase is the longest.
    """
    found = [(len(p), e.code) for e in entries().values() for p in e.phrases if p in message]
    return max(found)[1] if found else ""


def with_code(message: str) -> str:
    """Give a refusal with its code at the end."""
    return f"{message} [{code_of(message) or GENERAL}]"


def code_of_end(end: RankEnd) -> str:
    """Give the code for how a rank failed, "" where there is nothing to explain."""
    if end.out_of_memory:
        return OUT_OF_MEMORY
    return OUTCOMES.get(end.outcome, "")
