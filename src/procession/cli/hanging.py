"""When a group is taken for hung, as the command line says it."""

from __future__ import annotations

from procession.cli.settings import Settings
from procession.errors import SpecError
from procession.policy import DEFAULT_HANG, Hang


def read_hang(s: Settings) -> Hang:
    """Read it. Raises SpecError."""
    return Hang(
        timeout=_seconds(s, "hang_timeout"),
        silence=_seconds(s, "silence_timeout"),
        start=_seconds(s, "start_timeout") or DEFAULT_HANG.start,
        stacks=not s.flag("no_stacks"),
    )


def _seconds(s: Settings, name: str) -> float | None:
    if not s.said(name) and not s.on_command_line(name):
        return None
    text = s.text(name)
    try:
        seconds = float(text)
        Hang(timeout=seconds).check()
    except ValueError:
        raise SpecError(f"{s.where(name)} must be seconds, more than 0, not {text!r}") from None
    return seconds


__all__ = ["read_hang"]
