"""Messages by code: what each means, why it comes, and what to do.

A message carries its code at its end, in brackets: `[P005]`. `procession explain P005` prints the
entry, and docs/troubleshooting.md has all of them.

Code that raises an error does not know its code. Refusals and notes get the code where they are
printed, by the phrases of its entry; the end of a rank gets it by its outcome. Rejected: an
argument at each of some 400 places that raise. It would put a number into every exception that
people catch in Python. What ranks print themselves, and what every launch prints, has its code in
its text: there, nothing of this is imported. tests/explain/test_codes.py checks that each phrase
still occurs in the source, and tests/explain/test_every_message.py that each message has an entry.

May import values. Start reading at `code_of`.
"""

from __future__ import annotations

from procession.explain.messages.entry import Entry
from procession.values.errors import Outcome, RankEnd

GENERAL = "P001"  # of a refusal that has no entry of its own
OF_NOTES = "P4"  # how the codes of notes begin

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
NONE_STARTED = "could not be started, nor any other rank: "  # then why


def entries() -> dict[str, Entry]:
    """Give all entries by their codes, in order."""
    from procession.explain.messages.ends import ENDS
    from procession.explain.messages.machines import MACHINES
    from procession.explain.messages.notes import NOTES
    from procession.explain.messages.requests import REQUESTS
    from procession.explain.messages.runs import RUNS
    from procession.explain.messages.values import VALUES

    return {e.code: e for e in (*REQUESTS, *VALUES, *ENDS, *MACHINES, *RUNS, *NOTES)}


def code_of(message: str) -> str:
    """Give the code of a message by its text, "" if no entry knows it.

    Of several entries, it is the one whose phrase is the longest.
    """
    found = [(len(p), e.code) for e in entries().values() for p in e.phrases if p in message]
    return max(found)[1] if found else ""


def with_code(message: str) -> str:
    """Give a refusal with its code at the end."""
    return f"{message} [{code_of(message) or GENERAL}]"


def noted(message: str) -> str:
    """Give a note, which is no refusal, with its code at the end if an entry knows it.

    A note may quote what failed, and that may quote what a program said: entries of notes go before
    all others, and then the phrase that stands first counts, of several there the longest.
    """
    found = [
        (not e.code.startswith(OF_NOTES), message.index(p), -len(p), e.code)
        for e in entries().values()
        for p in e.phrases
        if p in message
    ]
    return f"{message} [{min(found)[-1]}]" if found else message


def code_of_end(end: RankEnd) -> str:
    """Give the code for how a rank failed, "" where there is nothing to explain."""
    if end.out_of_memory:
        return OUT_OF_MEMORY
    if end.outcome is Outcome.NOT_STARTED and end.message.startswith(NONE_STARTED):
        return _code_of_machines(end.message) or OUTCOMES[end.outcome]
    return OUTCOMES.get(end.outcome, "")


def _code_of_machines(message: str) -> str:
    """Give the code of why machines did not come, "" if no entry about machines knows it."""
    from procession.explain.messages.machines import MACHINES

    found = [(len(p), e.code) for e in MACHINES for p in e.phrases if p in message]
    return max(found)[1] if found else ""
