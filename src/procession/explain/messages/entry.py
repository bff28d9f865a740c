"""What is known about one kind of message."""

from __future__ import annotations

from procession.values.base import Value


class Entry(Value):
    """A kind of message, with its cause and its cure.

    code: by which people name it. It never changes its meaning, and is never used again.
    title: what happened, as a heading.
    phrases: parts of the message's text, each of which is enough to know it by.
    cause: why it happens. cure: what to do. Both are Markdown in plain sentences.
    """

    code: str
    title: str
    phrases: tuple[str, ...]
    cause: str
    cure: str
