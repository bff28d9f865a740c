"""The state of a process as the kernel shows it, without asking the process."""

from __future__ import annotations

from procession.system.files import read
from procession.system.identity import proc_is_ours
from procession.values.base import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

STOPPED: Final = "Tt"
DEAD: Final = "ZX"
# A main thread that waits there goes on after any handler has run: our signal would wake it.
WAITS_FOR_SIGNAL = ("pause", "sigsuspend")


class ProcState(Value):
    """The state of a process: its letter as `ps` shows it, and its signals as sets of bits.

    blocked: in its main thread. threads: how many it has.
    """

    letter: str
    caught: int
    blocked: int
    pending: int
    threads: int

    def catches(self, number: int) -> bool:
        """Whether it has a handler for a signal."""
        return bool(self.caught >> (number - 1) & 1)

    def blocks(self, number: int) -> bool:
        """Whether its main thread has a signal blocked."""
        return bool(self.blocked >> (number - 1) & 1)

    def awaits(self, number: int) -> bool:
        """Whether a signal is pending for it."""
        return bool(self.pending >> (number - 1) & 1)


def _read(pid: int, name: str, root: str) -> str | None:
    """Read a file of a process in /proc, unless /proc shows another namespace of pids."""
    return read(f"/proc/{pid}/{name}", root) if root != "/" or proc_is_ours() else None


def state_of(pid: int, root: str = "/") -> ProcState | None:
    """Look at a process, None if there is none."""
    text = _read(pid, "status", root)
    if not text:
        return None
    fields: dict[str, str] = {}
    for line in text.splitlines():
        name, _, value = line.partition(":")
        fields[name] = value.strip()
    try:
        return ProcState(
            letter=fields["State"][0],
            caught=int(fields["SigCgt"], 16),
            blocked=int(fields["SigBlk"], 16),
            pending=int(fields["ShdPnd"], 16),
            threads=int(fields["Threads"]),
        )
    except (KeyError, ValueError, IndexError):
        return None


def wait_channel(pid: int, root: str = "/") -> str:
    """Give the kernel's function that its main thread sleeps in, "" if it does not, or unknown."""
    said = _read(pid, "wchan", root) or ""
    return "" if said == "0" else said


def waits_for_signal(channel: str) -> bool:
    """Whether a thread that sleeps there waits for a signal, as in `signal.pause()`."""
    return any(word in channel for word in WAITS_FOR_SIGNAL)


def describe(pid: int, root: str = "/") -> str:
    """Say what a process does, as the verb of a sentence: "sleeps (in ep_poll)"."""
    state = state_of(pid, root)
    if root == "/" and not proc_is_ours():
        return "cannot be seen: /proc is not there, or shows another namespace of pids"
    if state is None or state.letter in DEAD:
        return "is gone"
    channel = wait_channel(pid, root)
    where = f" (in {channel})" if channel else ""
    if state.letter in STOPPED:
        return "is stopped (as by SIGSTOP, or by a debugger)"
    if state.letter == "D":
        return f"is in uninterruptible sleep{where}"
    if waits_for_signal(channel):
        return "waits for a signal"
    return "runs" if state.letter == "R" else f"sleeps{where}"
