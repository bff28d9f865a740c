"""Reads what `faulthandler` writes. Pure: any text in, threads out; nothing here raises.

A dump names the innermost frame of each thread first, and the main thread last. It may be cut off
anywhere, and may contain lines that others have written. If there are several, the last one counts.
"""

from __future__ import annotations

import re

from procession.values.base import Value, is_count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

Frame = tuple[str, int, str]  # file, line (0: not known), function

_THREAD = re.compile(r"(Current thread|Thread) (0x[0-9a-f]+)(?: \[(.*)\])? \(most recent call")
_STACK = re.compile(r"Stack \(most recent call")
_FRAME = re.compile(r'  File (?:"(.*)"|\?\?\?), line (\d{1,9}|\?\?\?) in (.*)$')
# Frames of ours below a program, and those between them and the program.
_OURS = re.compile(
    r"(^|/)procession/(worker/(bootstrap|program|process|ending|outcome|streams)|"
    r"forkserver/\w+)\.py$"
)
_STREAM = re.compile(r"(^|/)procession/worker/streams\.py$")
_BETWEEN = re.compile(r"^<string>$|^<frozen runpy>$|/runpy\.py$")


class Thread(Value):
    """A thread: its number as the dump has it, and its frames, the innermost first.

    current: whether it is the one that wrote the dump. cut: whether its outer frames are missing.
    """

    number: str
    frames: tuple[Frame, ...]
    current: bool = False
    cut: bool = False


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
                {"thread": t.number, "frames": [list(frame) for frame in t.frames]}
                for t in self.threads
            ],
        }


def stack_of(rank: int, pid: int | None, state: str, letter: str, dump: bytes) -> Stack:
    """Make the stack of a rank from its dump, b"" for none."""
    text = dump.decode(errors="replace")
    threads = read_dump(text)
    main = main_thread(threads)
    frames = () if main is None else own_frames(main.frames)
    if not frames and not state:
        inside = main is not None and main.frames
        state = "shows no frame of the program" if inside else "shows no stack"
    return Stack(rank, pid, "" if frames else state, letter, frames, threads, text)


def read_dump(text: str) -> tuple[Thread, ...]:
    """Read the threads of the last dump in a text."""
    threads: list[tuple[str, bool, list[Frame]]] = []
    cut: set[int] = set()
    seen: set[str] = set()
    for line in text.split("\n"):
        head = _THREAD.match(line)
        if head or _STACK.match(line):
            number, current = (head[2], head[1] != "Thread") if head else ("", True)
            if number in seen:  # another dump begins
                threads, cut, seen = [], set(), set()
            seen.add(number)
            threads.append((number, current, []))
        elif threads:
            frame = _FRAME.match(line)
            if frame:
                at = int(frame[2]) if is_count(frame[2]) else 0
                threads[-1][2].append((frame[1] or "???", at, frame[3]))
            elif line == "  ...":
                cut.add(len(threads) - 1)
    return tuple(
        Thread(number, tuple(frames), current, i in cut)
        for i, (number, current, frames) in enumerate(threads)
    )


def main_thread(threads: tuple[Thread, ...]) -> Thread | None:
    """Choose the main thread: that of our bootstrap, else the last one.

    Of more than a hundred threads the last ones are missing: then it is the one that wrote.
    """
    for thread in reversed(threads):
        if any(_OURS.search(file) for file, _, _ in thread.frames):
            return thread
    if not threads or _is_of_another(threads):
        return None
    writer = next((t for t in threads if t.current), None)
    return writer if len(threads) >= 100 and writer is not None else threads[-1]


def _is_of_another(threads: tuple[Thread, ...]) -> bool:
    """Whether a thread that is not the main one has got the signal, and has shown itself."""
    frames = threads[0].frames
    return len(threads) == 1 and bool(frames) and frames[-1][2] == "_bootstrap"


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
