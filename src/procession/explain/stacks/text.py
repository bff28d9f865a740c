"""Reads what `faulthandler` writes. Pure: any text in, frames out; nothing here raises.

A dump has the frames of one thread, the innermost first. It may be cut off anywhere, and may hold
lines that others have written. If there are several, the last one counts.
"""

from __future__ import annotations

import re

from procession.values.base import Value, is_count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

Frame = tuple[str, int, str]  # file, line (0: not known), function

_HEAD = re.compile(r"(Stack|Current thread .*|Thread .*) \(most recent call")
_FRAME = re.compile(r'  File (?:"(.*)"|\?\?\?), line (\d{1,9}|\?\?\?) in (.*)$')
# Frames of ours below a program, and those between them and the program.
_OURS = re.compile(
    r"(^|/)procession/(worker/(bootstrap|program|process|ending|outcome|streams)|"
    r"agent/\w+)\.py$"
)
_STREAM = re.compile(r"(^|/)procession/worker/streams\.py$")
_BETWEEN = re.compile(r"^<string>$|^<frozen runpy>$|/runpy\.py$")


class Thread(Value):
    """A thread: its name where py-spy has looked, and its frames, the innermost first."""

    name: str
    frames: tuple[Frame, ...]


class Stack(Value):
    """Where a rank is.

    state: what it does, as the verb of a sentence, where no frame is known; else "". letter: of its
    process's state, as `ps` shows it. frames: of its main thread in the program, the innermost
    first. threads: all, with all frames. text: its dump as it was written. kernel: lines of its
    stack in the kernel, where there is no other. native: the frames of its main thread with those
    of native code, in words, the innermost first, where they were asked for.
    """

    rank: int
    pid: int | None
    state: str = ""
    letter: str = ""
    frames: tuple[Frame, ...] = ()
    threads: tuple[Thread, ...] = ()
    text: str = ""
    kernel: tuple[str, ...] = ()
    native: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Give it as plain data that JSON knows; see `Group.stacks`."""
        return {
            "rank": self.rank,
            "pid": self.pid,
            "state": self.state,
            "letter": self.letter,
            "frames": [list(frame) for frame in self.frames],
            "kernel": list(self.kernel),
            "native": list(self.native),
            "threads": [
                {"thread": t.name, "frames": [list(frame) for frame in t.frames]}
                for t in self.threads
            ],
        }


def stack_of(rank: int, pid: int | None, state: str, letter: str, dump: bytes) -> Stack:
    """Make the stack of a rank from its dump, b"" for none."""
    text = dump.decode(errors="replace")
    shown = read_dump(text)
    if shown and shown[-1][2] == "_bootstrap":
        shown = ()  # a thread that is not the main one has got the signal
    frames = own_frames(shown)
    if not frames and not state:
        state = "shows no frame of the program" if shown else "shows no stack"
    threads = (Thread("", shown),) if shown else ()
    return Stack(rank, pid, "" if frames else state, letter, frames, threads, text)


def read_dump(text: str) -> tuple[Frame, ...]:
    """Read the frames of the last dump in a text."""
    frames: list[Frame] | None = None
    for line in text.split("\n"):
        if _HEAD.match(line):
            frames = []
        elif frames is not None and (frame := _FRAME.match(line)):
            at = int(frame[2]) if is_count(frame[2]) else 0
            frames.append((frame[1] or "???", at, frame[3]))
    return tuple(frames or ())


def own_frames(frames: tuple[Frame, ...]) -> tuple[Frame, ...]:
    """Leave out what lies below the program: our frames, and those that run a module.

    And the stream of ours to which the program may be writing.
    """
    while frames and _STREAM.search(frames[0][0]):
        frames = frames[1:]
    ours = [i for i, (file, _, _) in enumerate(frames) if _OURS.search(file)]
    kept = frames[: ours[0]] if ours else frames
    while kept and _BETWEEN.search(kept[-1][0]):
        kept = kept[:-1]
    return kept
