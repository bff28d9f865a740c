"""The stacks of many ranks in few lines; a rank that is alone at its place comes first. Pure.

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

from procession.explain.stacks.text import Frame, Stack, Thread
from procession.values.base import Value
from procession.values.ranks import fold_ranks, format_ranks

TYPE_CHECKING = False  # `typing` takes 3 ms to import, for which each failure would wait
if TYPE_CHECKING:
    from typing import Any

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
HELD = ("D", "T", "t")  # states of processes that go on only when somebody else lets them
PLURAL = {"is": "are", "waits": "wait", "sleeps": "sleep", "runs": "run", "shows": "show",
          "has": "have"}  # fmt: skip


class Place(Value):
    """Where a rank is, in words: what it is in, "" for the frame's own code; and `file:line`."""

    what: str
    where: str
    waits: bool


class Together(Value):
    """Ranks that are at the same place. said: where, as the verb of a sentence on one rank.

    within: the functions of the program that they are in, the outermost first; "" if not known.
    """

    said: str
    ranks: tuple[int, ...]
    within: str = ""

    @property
    def line(self) -> str:
        """Say it: `rank 3 is in f (a.py:4)`, `2 ranks [0,2] wait in g (b.py:5)`."""
        if len(self.ranks) == 1:
            return f"rank {self.ranks[0]} {self.said}"
        verb, _, rest = self.said.partition(" ")
        said = f"{PLURAL.get(verb, verb)} {rest}".rstrip()
        return f"{len(self.ranks)} ranks [{fold_ranks(self.ranks)}] {said}"


def place_of(frames: Sequence[Frame]) -> Place | None:
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
        return Place(called, where, waits=True)
    return Place("" if function == "<module>" else function, where, waits=False)


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
        found.append(Together(said_of(calm), ranks, _within(calm.frames)))
    return sorted(found, key=lambda t: (len(t.ranks), t.ranks))


def odd_one(stacks: Sequence[Stack]) -> int | None:
    """Give the rank that is where no other is, if there is exactly one, while others are together.

    Such a rank is what the others wait for, where all should be doing the same. So is the only one
    that is stopped, or in uninterruptible sleep.
    """
    held = [s.rank for s in stacks if s.letter in HELD and not s.frames]
    if len(held) == 1 < len(stacks):
        return held[0]
    odd = odd_of(together(stacks))
    return None if odd is None else odd.ranks[0]


def odd_of(found: Sequence[Together]) -> Together | None:
    """Give the group that is one rank at a place of its own, while others are together.

    Where several are such, it is the only one in functions of its own: who waits in a loop is now
    in this call and now in that one, within the same function. found: as `together` sorts them.
    """
    if len(found) > 1 and len(found[0].ranks) == 1 < len(found[1].ranks):
        return found[0]
    members: dict[str, list[Together]] = {}
    for each in found:
        if each.within:
            members.setdefault(each.within, []).append(each)
    alone = [m[0] for m in members.values() if sum(len(each.ranks) for each in m) == 1]
    return alone[0] if len(alone) == 1 < len(members) else None


def _within(frames: Sequence[Frame]) -> str:
    """Name the functions of the program that frames are in; what is no `def` is a part of one."""
    frames = _between_ours(frames)
    home = _package_of(frames[-1][0]) if frames else None
    own = [function for file, _, function in frames if _package_of(file) in (None, home)]
    return " > ".join(name for name in reversed(own) if name not in PARTS)


def joined(groups: Iterable[Together]) -> list[Together]:
    """Join groups that are at the same place, such as those of several nodes; sorted as `together`.

    Ranks that wait somewhere, and others that run there, are together.
    """
    said: dict[str, str] = {}
    within: dict[str, str] = {}
    ranks: dict[str, list[int]] = {}
    for each in groups:
        place = each.said.removeprefix("waits in ").removeprefix("is in ")
        if place not in said or each.said.startswith("waits in "):
            said[place] = each.said
        within.setdefault(place, each.within)
        ranks.setdefault(place, []).extend(each.ranks)
    found = [Together(said[p], tuple(sorted(of)), within[p]) for p, of in ranks.items()]
    return sorted(found, key=lambda t: (len(t.ranks), t.ranks))


def lines_of(stacks: Iterable[Stack], most: int = MOST_LINES) -> list[str]:
    """Say where ranks are, one line for those at the same place."""
    return lines_of_groups(together(stacks), most)


def lines_of_groups(found: Sequence[Together], most: int = MOST_LINES) -> list[str]:
    """Say where ranks are that have been put together, one line for each group."""
    if len(found) <= most:
        return [each.line for each in found]
    rest = [rank for each in found[most - 1 :] for rank in each.ranks]
    shown = [each.line for each in found[: most - 1]]
    return [*shown, f"{len(rest)} more ranks [{fold_ranks(rest)}] are elsewhere"]


def tree(stacks: Iterable[Stack]) -> list[str]:
    """Write the merged stacks, from the outermost frame in; lines are indented where ranks part."""
    lines: list[str] = []
    todo = [(0, 0, sorted(stacks, key=lambda s: s.rank))]
    while todo:
        indent, depth, group = todo.pop()
        if not group:
            break
        pad = "  " * indent
        lines.append(f"{pad}[{fold_ranks(s.rank for s in group)}]")
        while True:
            parts: dict[Frame | None, list[Stack]] = {}
            for stack in group:
                at = len(stack.frames) - 1 - depth
                parts.setdefault(stack.frames[at] if at >= 0 else None, []).append(stack)
            if len(parts) > 1:
                todo += [(indent + 1, depth, part) for part in reversed(list(parts.values()))]
                break
            (frame,) = parts
            if frame is None:
                if not depth:
                    lines += [f"{pad}{each.line}" for each in together(group)]
                break
            lines.append(f"{pad}{frame[2]} ({frame[0]}:{frame[1]})")
            depth += 1
    return lines


def whole(stacks: Sequence[Stack]) -> str:
    """Write all that is known: the summary, the merged stacks, and each rank's whole stack."""
    lines = [*lines_of(stacks, len(stacks)), "", "merged, the outermost frame first:", ""]
    lines += tree(stacks)
    for stack in stacks:
        pid = f" (pid {stack.pid})" if stack.pid is not None else ""
        lines += ["", f"rank {stack.rank}{pid} {said_of(stack)}"]
        lines += [f"  {line}" for line in stack.text.splitlines()]
    return "\n".join(lines) + "\n"


def format(data: Iterable[Mapping[str, Any]], first: int = 0) -> str:
    """Write what `Group.stacks` gives: the summary, then the merged stacks.

    first: what is added to each rank's number, where other machines have ranks, too.
    """
    stacks = [from_dict(each, first) for each in data]
    lines = [*lines_of(stacks, len(stacks)), "", *tree(stacks)]
    for stack in stacks:
        if stack.kernel:
            lines += ["", f"rank {stack.rank} in the kernel:", *(f"  {k}" for k in stack.kernel)]
    natives: dict[tuple[str, ...], list[int]] = {}
    for stack in stacks:
        if stack.native:
            natives.setdefault(stack.native, []).append(stack.rank)
    for frames, ranks in natives.items():
        lines += ["", f"{format_ranks(ranks)} with native code, the innermost first:"]
        lines += [f"  {frame}" for frame in frames]
    return "\n".join(lines) + "\n"


def from_dict(data: Mapping[str, Any], first: int = 0) -> Stack:
    """Make a stack again of what `Stack.as_dict` gave."""
    return Stack(
        rank=first + int(data["rank"]),
        pid=data["pid"],
        state=str(data["state"]),
        letter=str(data["letter"]),
        frames=_frames(data["frames"]),
        kernel=tuple(map(str, data.get("kernel", ()))),
        native=tuple(map(str, data.get("native", ()))),
        threads=tuple(Thread(str(t["thread"]), _frames(t["frames"])) for t in data["threads"]),
    )


def _frames(data: Iterable[Sequence[Any]]) -> tuple[Frame, ...]:
    return tuple((str(file), int(line), str(function)) for file, line, function in data)
