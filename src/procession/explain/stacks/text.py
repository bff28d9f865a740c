"""Where ranks are, in words: reads what `faulthandler` writes, and names places in the code.

Pure: any text in, words out; nothing here raises.

A dump has the frames of one thread, the innermost first. It may be cut off anywhere, and may hold
lines that others have written. If there are several, the last one counts.

Where a rank is: the innermost frame of the user's own code, which is what lies neither in the
standard library nor in an installed package (or lies in the package that the program begins in).
What it waits in there, if that frame has called a library:

- of installed packages, the innermost function that is not private and no mere wrapper
  (`all_reduce` of torch, not the `wrapper` around it; `backward`, not `_engine_run_backward`),
  else the innermost one;
- with nothing but the standard library, the outermost such function, which is the one that the
  user has called: `get` of a queue, not the `wait` of a condition within it.

Frames of this package, such as those of `beat`, are never shown as a rank's place: the place is the
code that has called this package, or the code that this package has called.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence

from procession.values.base import Value
from procession.values.figures import fold_ranks
from procession.worker.stackfile import BY_PYTHON

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

Frame = tuple[str, int, str]  # file, line (0: not known), function

_HEAD = re.compile(r"(Stack|Current thread .*|Thread .*) \(most recent call")
_FRAME = re.compile(r'  File (?:"(.*)"|\?\?\?), line ([0-9]{1,9}|\?\?\?) in (.*)$')
_DEBUGGED = "/procession/worker/debugging.py"
# Frames of ours below a program, and those of Python between them and the program.
_BELOW = re.compile(
    r"(^|/)procession/(worker/(bootstrap|setup|program|process|ending|outcome|streams)|agent/\w+)\.py$"
)
_BETWEEN = re.compile(r"^<string>$|^<frozen |/(runpy|genericpath|posixpath)\.py$")

_INSTALLED = re.compile(r"/(?:site|dist)-packages/([^/]+)")
_STANDARD = re.compile(r"^<frozen |/lib(?:32|64)?/python3(?:\.\d+)?t?/")
_OURS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + "/"
_OWN_STANDARD = os.path.dirname(os.path.realpath(os.__file__)) + "/"
WRAPPERS = frozenset(
    ("wrapper", "wrapped", "inner", "decorated", "decorate_context", "inner_wrapper", "<lambda>",
     "new_func", "fn", "func", "wrapper_set_stance")
)  # fmt: skip
PARTS = frozenset(("<genexpr>", "<listcomp>", "<setcomp>", "<dictcomp>", "<lambda>"))
MOST_LINES = 10
PLURAL = {"is": "are", "waits": "wait", "sleeps": "sleep", "runs": "run", "shows": "show",
          "has": "have"}  # fmt: skip


class Stack(Value):
    """Where a rank is.

    state: what it does, as the verb of a sentence, where no frame is known; else "". letter: of its
    process's state, as `ps` shows it. frames: of its main thread in the program, the innermost
    first. text: its dump as it was written. native: the frames of its main thread with those of
    native code, in words, the innermost first, where they were asked for.
    """

    rank: int
    pid: int | None
    state: str = ""
    letter: str = ""
    frames: tuple[Frame, ...] = ()
    text: str = ""
    native: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Give it as plain data that JSON knows; see `Group.stacks`."""
        frames = [list(frame) for frame in self.frames]
        known = {"rank": self.rank, "pid": self.pid, "state": self.state, "letter": self.letter}
        return {**known, "frames": frames, "native": list(self.native)}


def from_dict(data: Mapping[str, Any], first: int = 0) -> Stack:
    """Make a stack again of what `Stack.as_dict` gave."""
    frames = tuple((str(file), int(line), str(name)) for file, line, name in data["frames"])
    native = tuple(map(str, data["native"]))
    rank = first + int(data["rank"])
    return Stack(rank, data["pid"], str(data["state"]), str(data["letter"]), frames, "", native)


def stack_of(rank: int, pid: int | None, state: str, letter: str, dump: bytes) -> Stack:
    """Make the stack of a rank from its dump, b"" for none."""
    text = dump.decode(errors="replace")
    shown = read_dump(text)
    if shown and shown[-1][2] == "_bootstrap":
        shown = ()  # a thread that is not the main one has got the signal
    if any(file.endswith(_DEBUGGED) for file, _, _ in shown):
        return Stack(rank, pid, "is stopped in its debugger", letter, (), text)
    frames = own_frames(shown)
    if not frames and not state:
        state = "has not reached your code" if shown else "shows no stack"
    return Stack(rank, pid, "" if frames else state, letter, frames, text)


def read_dump(text: str) -> tuple[Frame, ...]:
    """Read the frames of the last dump in a text."""
    frames: list[Frame] | None = None
    for line in text.split("\n"):
        if _HEAD.match(line):
            frames = []
        elif frames is not None and (frame := _FRAME.match(line)) and BY_PYTHON not in line:
            frames.append((frame[1] or "???", int(frame[2].replace("???", "0")), frame[3]))
    return tuple(frames or ())


def is_ours(line: str) -> bool:
    """Whether a line of a dump is a frame below the program."""
    frame = _FRAME.match(line)
    return frame is not None and bool(
        _BELOW.search(frame[1] or "") or _BETWEEN.search(frame[1] or "")
    )


def in_standard(frames: Sequence[Frame]) -> bool:
    """Whether the innermost of some frames is in the standard library."""
    return bool(frames) and _package_of(frames[0][0]) == ""


def own_frames(frames: tuple[Frame, ...]) -> tuple[Frame, ...]:
    """Leave out what lies below the program: our frames, and those that run a module."""
    ours = [i for i, (file, _, _) in enumerate(frames) if _BELOW.search(file)]
    kept = frames[: ours[0]] if ours else frames
    while kept and _BETWEEN.search(kept[-1][0]):
        kept = kept[:-1]
    return kept


class CodePlace(Value):
    """Where a rank is, in words: what it is in, "" for the frame's own code; and `file:line`."""

    what: str
    where: str
    waits: bool


class Together(Value):
    """Ranks that are at the same place. said: where, as the verb of a sentence on one rank.

    within: the functions of the program that they are in, the outermost first; "" if not known.
    calls: they stand in the code of an installed package, as in a collective operation.
    """

    said: str
    ranks: tuple[int, ...]
    within: str = ""
    calls: bool = False

    @property
    def line(self) -> str:
        """Say it: `rank 3 is in f (a.py:4)`, `2 ranks [0,2] wait in g (b.py:5)`."""
        if len(self.ranks) == 1:
            return f"rank {self.ranks[0]} {self.said}"
        verb, _, rest = self.said.partition(" ")
        said = f"{PLURAL.get(verb, verb)} {rest}".rstrip()
        return f"{len(self.ranks)} ranks [{fold_ranks(self.ranks)}] {said}"


def place_of(frames: Sequence[Frame]) -> CodePlace | None:
    """Say where the frames (the innermost first) are; None for no frame."""
    frames = _between_ours(frames)
    if not frames:
        return None
    kinds = [_package_of(file) for file, _, _ in frames]
    home = kinds[-1]
    own = next(i for i, kind in enumerate(kinds) if kind in (None, home))
    if kinds[own] == "" and own != len(frames) - 1:  # it begins in the standard library
        own = next((i for i, kind in enumerate(kinds) if kind), own)
    file, line, function = frames[own]
    where = f"{os.path.basename(file) or file}:{line}" if line else os.path.basename(file)
    called = _called(list(zip(frames[:own], kinds[:own], strict=True)))
    if called:
        return CodePlace(called, where, waits=True)
    return CodePlace("" if function == "<module>" else function, where, waits=False)


def _between_ours(frames: Sequence[Frame]) -> Sequence[Frame]:
    """Leave out our frames at both ends, if there are others."""
    others = [i for i, (file, _, _) in enumerate(frames) if _package_of(file) != "procession"]
    return frames[others[0] : others[-1] + 1] if others else frames


def _package_of(file: str) -> str | None:
    """Name the installed package of a file, "" for the standard library, None for the user's."""
    if file.startswith(_OURS):
        return "procession"
    installed = _INSTALLED.search(file)
    if installed:
        return installed[1]
    if _STANDARD.search(file) or file.startswith(_OWN_STANDARD):
        return ""
    return None


def _called(calls: list[tuple[Frame, str | None]]) -> str:
    """Choose of library calls (the innermost first) the one that says most; "" for none."""
    packages = [function for (_, _, function), kind in calls if kind]
    if packages:
        return next((f for f in packages if _is_public(f)), packages[0])
    standard = [function for (_, _, function), _ in calls]
    return next((f for f in reversed(standard) if _is_public(f)), standard[-1] if standard else "")


def _is_public(function: str) -> bool:
    return not function.startswith("_") and function not in WRAPPERS


def said_of(stack: Stack) -> str:
    """Say where a rank is, as the verb of a sentence: `waits in all_reduce (train.py:88)`."""
    place = place_of(stack.frames)
    if place is None:
        return stack.state or "shows no stack"
    verb = "waits in" if place.waits and stack.letter != "R" else "is in"
    return f"{verb} {place.what} ({place.where})" if place.what else f"is at {place.where}"


def together(stacks: Iterable[Stack]) -> list[Together]:
    """Put ranks together that are at the same place; the fewest come first."""
    members: dict[tuple[Any, ...], list[Stack]] = {}
    for stack in stacks:
        place = place_of(stack.frames)
        key = (place.what, place.where) if place else (stack.state,)
        members.setdefault(key, []).append(stack)
    found: list[Together] = []
    for group in members.values():
        calm = next((s for s in group if s.letter != "R"), group[0])
        ranks = tuple(sorted(s.rank for s in group))
        calls = bool(calm.frames) and bool(_package_of(_between_ours(calm.frames)[0][0]))
        found.append(Together(said_of(calm), ranks, _within(calm.frames), calls))
    return sorted(found, key=lambda t: (len(t.ranks), t.ranks))


def with_first(found: Iterable[Together], ranks: Iterable[int]) -> list[Together]:
    """Put those that are where some ranks are, such as the one that hangs, before the others."""
    return sorted(found, key=lambda each: not {*each.ranks} & {*ranks})


def _within(frames: Sequence[Frame]) -> str:
    """Name the functions of the program that frames are in; what is no `def` is a part of one."""
    frames = _between_ours(frames)
    home = _package_of(frames[-1][0]) if frames else None
    own = [function for file, _, function in frames if _package_of(file) in (None, home)]
    return " > ".join(name for name in reversed(own) if name not in PARTS)


def lines_of(found: Sequence[Together], most: int = MOST_LINES) -> list[str]:
    """Say where ranks are that have been put together, one line for each group."""
    if len(found) <= most:
        return [each.line for each in found]
    rest = [rank for each in found[most - 1 :] for rank in each.ranks]
    shown = [each.line for each in found[: most - 1]]
    return [*shown, f"{len(rest)} more ranks [{fold_ranks(rest)}] are elsewhere"]
