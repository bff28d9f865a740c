"""The stacks of many ranks, merged and written; and which rank is alone at its place. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from procession.explain.stacks.text import Stack, Together, from_dict, lines_of, said_of, together
from procession.values.figures import fold_ranks, format_ranks

TYPE_CHECKING = False  # `typing` takes 3 ms to import, for which each failure would wait
if TYPE_CHECKING:
    from typing import Any

HELD = ("is stopped ", "is in uninterruptible ")  # that go on only when somebody else lets them


def odd_one(stacks: Sequence[Stack]) -> int | None:
    """Give the rank that is where no other is, if there is exactly one, while others are together.

    Such a rank is what the others wait for, where all should be doing the same.
    """
    odd = odd_of(together(stacks))
    return None if odd is None else odd.ranks[0]


def odd_of(found: Sequence[Together]) -> Together | None:
    """Give the group that is one rank at a place of its own, while others are together.

    Where several are such, it is the only one in functions of its own: who waits in a loop is now
    in this call and now in that one, within the same function. Before that, it is the only one that
    is stopped, or in uninterruptible sleep; at last, the only one that does not stand in
    an installed package. found: as `together` sorts them.
    """
    held = [each for each in found if each.said.startswith(HELD)]
    if sum(len(each.ranks) for each in held) == 1 < len(found):
        return held[0]
    if len(found) > 1 and len(found[0].ranks) == 1 < len(found[1].ranks):
        return found[0]
    members: dict[str, list[Together]] = {}
    for each in found:
        if each.within:
            members.setdefault(each.within, []).append(each)
    alone = [m[0] for m in members.values() if sum(len(each.ranks) for each in m) == 1]
    if len(alone) == 1 < len(members):
        return alone[0]
    others = [each for each in found if not each.calls]
    return others[0] if sum(len(each.ranks) for each in others) == 1 < len(found) else None


def joined(groups: Iterable[Together]) -> list[Together]:
    """Join groups that are at the same place, such as those of several nodes; sorted as `together`.

    Ranks that wait somewhere, and others that run there, are together.
    """
    said: dict[str, str] = {}
    within: dict[str, str] = {}
    ranks: dict[str, list[int]] = {}
    calls: set[str] = set()
    for each in groups:
        place = each.said.removeprefix("waits in ").removeprefix("is in ")
        if place not in said or each.said.startswith("waits in "):
            said[place] = each.said
        within.setdefault(place, each.within)
        ranks.setdefault(place, []).extend(each.ranks)
        calls.update([place] if each.calls else [])
    found = [Together(said[p], tuple(sorted(of)), within[p], p in calls) for p, of in ranks.items()]
    return sorted(found, key=lambda t: (len(t.ranks), t.ranks))


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
            parts: dict[tuple[str, int, str] | None, list[Stack]] = {}
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
    lines = [*lines_of(together(stacks), len(stacks)), "", "merged, the outermost frame first:", ""]
    lines += tree(stacks)
    for stack in stacks:
        pid = f" (pid {stack.pid})" if stack.pid is not None else ""
        lines += ["", f"rank {stack.rank}{pid} {said_of(stack)}"]
        lines += [f"  {line}" for line in stack.text.splitlines()]
    return "\n".join(lines) + "\n"


class Stacks(list["dict[str, Any]"]):
    """What `Group.stacks` returns: plain data, and as a text the merged stacks."""

    def __str__(self) -> str:
        return format(self)


def format(data: Iterable[Mapping[str, Any]], first: int = 0) -> str:
    """Write what `Group.stacks` gives: the summary, then the merged stacks.

    first: what is added to each rank's number, where other machines have ranks, too.
    """
    stacks = [from_dict(each, first) for each in data]
    lines = [*lines_of(together(stacks), len(stacks)), "", *tree(stacks)]
    natives: dict[tuple[str, ...], list[int]] = {}
    for stack in stacks:
        if stack.native:
            natives.setdefault(stack.native, []).append(stack.rank)
    for frames, ranks in natives.items():
        lines += ["", f"{format_ranks(ranks)} with native code, the innermost first:"]
        lines += [f"  {frame}" for frame in frames]
    return "\n".join(lines) + "\n"
