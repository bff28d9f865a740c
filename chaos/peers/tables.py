"""The tables of the peers: one for each kind of fault, with a line for each launcher."""

from __future__ import annotations

from typing import Any

from chaos.peers import PEERS, peer_of
from chaos.peers.kinds import KINDS
from chaos.peers.peer import Promise

FAULTS = (
    "| launcher | promises | kept | named as first | all ended after | there after 1 s | 10 s |\n"
)
OUTPUT = "| launcher | promises | kept | lines not whole | took |\n"


def tables(results: dict[str, Any]) -> str:
    """Give all tables, as Markdown. results: by the name of the row."""
    measured = {
        f"{result['day']}, Linux {result['machine']}"
        for name, result in results.items()
        if name.startswith("peers.")
    }
    text = f"Measured by `CHAOS=peers make chaos`: {'; '.join(sorted(measured))}.\n"
    for kind_name, kind in KINDS.items():
        flood = kind_name == "output"
        head = OUTPUT if flood else FAULTS
        text += f"\n**{kind.fault[0].upper()}{kind.fault[1:]}** (`peers.*.{kind_name}`)\n\n"
        text += head + "|---" * (head.count("|") - 1) + "|\n"
        for name in PEERS:
            peer = peer_of(name)
            promise = _promise(peer.promises[kind_name])
            result = results.get(f"peers.{name}.{kind_name}")
            cells = _output(result) if flood else _fault(result)
            if result is None:
                cells = ["not run"]
            elif not peer.promises[kind_name].checks:
                cells[0] = ""
            text += f"| {peer.shown} | {promise} | {' | '.join(cells)} |\n"
    return text


def _promise(promise: Promise) -> str:
    if not promise.words:
        return "nothing"
    link = promise.source.startswith("https:")
    source = f"[source]({promise.source})" if link else promise.source
    within = f"; judged: within {promise.within:g} s" if "ends" in promise.checks else ""
    return f"{promise.words} ({source}{within})"


def _kept(result: dict[str, Any]) -> str:
    counts, trials = result["counts"], result["trials"]
    kept = counts.get("kept", 0)
    broken = [f"{REASONS[check]}: {number}" for check, number in _under(counts, "broken: ").items()]
    return f"all {trials}" if kept == trials else f"**{kept} of {trials}** ({'; '.join(broken)})"


REASONS = {
    "fails": "exit code 0",
    "names": "another rank, or none, named",
    "ends": "not ended in time",
    "empty": "processes left",
    "lines": "lines lost or torn",
}


def _fault(result: dict[str, Any] | None) -> list[str]:
    if result is None:
        return []
    counts, trials = result["counts"], result["trials"]
    named = [f"{how} {number}" for how, number in _under(counts, "named: ").items()]
    took = result["figures"].get("until the end")
    ended = [f"{took['median']:.1f} s, at most {took['most']:.1f} s"] if took else []
    if counts.get("not ended"):
        ended.append(f"**not ended: {counts['not ended']} of {trials}**")
    looks = [
        "; ".join(f"{what} {number}" for what, number in _under(counts, f"after {s} s: ").items())
        for s in (1, 10)
    ]
    return [
        _kept(result),
        ", ".join(named),
        "; ".join(ended),
        *(look or "nothing" for look in looks),
    ]


def _output(result: dict[str, Any] | None) -> list[str]:
    if result is None:
        return []
    counts, took = result["counts"], result["figures"].get("until the end")
    torn = f"{counts.get('lines lost or torn', 0):,}"
    return [_kept(result), torn, f"{took['median']:.1f} s" if took else "not ended"]


def _under(counts: dict[str, int], start: str) -> dict[str, int]:
    """Give the counts whose names begin so, by the rest of their names."""
    return {name[len(start) :]: number for name, number in counts.items() if name.startswith(start)}
