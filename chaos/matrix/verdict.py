"""What a cell is, and whether `procession doctor` had said so there. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaos.matrix.cell import BROKEN, FALLS_BACK, REFUSES, WORKS, Cell

WORSE = ("falls back", "missing", "low")
# What a check beside the main ones says, and the finding of doctor's that must say the same.
TOLD_BY = {
    "contain pidns": ("namespaces",),
    "contain cgroup": ("kill_group",),
    "memory cgroup": ("rank_cgroups",),
    "seen from elsewhere": ("control",),
    "detached": ("state", "control"),  # its directory, and the socket by which it is stopped
}


@dataclass(frozen=True)
class Verdict:
    """What a cell is. said: fallbacks, or the refusal. beside: what else does not work, with why.
    problems: what is broken, and where doctor says something else than the launches.
    """

    word: str
    said: tuple[str, ...]
    beside: tuple[str, ...]
    problems: tuple[str, ...]


Told = Mapping[str, Any]  # a line of the check's


def judge(
    cell: Cell, main: Sequence[Told], beside: Sequence[Told], doctor: Told, usual: Told
) -> Verdict:
    """Judge a cell. doctor: what it says in there, as JSON. usual: what it says outside."""
    findings, before = _findings(doctor), _findings(usual)
    worse = {key for key, found in findings.items() if _is_worse(found, before.get(key))}
    refused = [each["said"] for each in main if each["came"] == "refuses"]
    if len(refused) == len(main):
        beside = ()  # the same again
    tried = (*main, *beside)
    problems = [f"{each['check']}: {each['said']}" for each in tried if each["came"] == "broken"]
    said: list[str] = []
    if problems or not main or 0 < len(refused) < len(main):
        word = BROKEN
        some = [f"{each['check']}: {each['said']}" for each in main if each["came"] == "refuses"]
        problems += some if not problems else []
    elif refused:
        word, said = REFUSES, [refused[0]]
    else:
        said = [_fallback(findings[key]) for key in sorted(worse) if _falls_back(findings[key])]
        word = FALLS_BACK if said else WORKS
    problems += _of_doctor(cell, doctor, worse, word, refused)
    for each in beside:
        problems += _of_one(each, findings)
    others = [f"{each['check']}: {each['said']}" for each in beside if each["came"] == "refuses"]
    return Verdict(word, tuple(said), tuple(others), tuple(problems))


def _findings(doctor: Told) -> dict[str, dict[str, Any]]:
    return {key: found for group in doctor["groups"].values() for key, found in group.items()}


def _is_worse(found: Told, before: Told | None) -> bool:
    if found["mark"] in WORSE:
        return before is None or before["mark"] != found["mark"]
    return found["data"] is False and before is not None and before["data"] is True


def _falls_back(found: Told) -> bool:
    return found["mark"] == "falls back"


def _fallback(found: Told) -> str:
    return f"{found['thing']}: {found['instead']}"


def _of_doctor(
    cell: Cell, doctor: Told, worse: set[str], word: str, refused: Sequence[str]
) -> list[str]:
    """Compare doctor with the launches as a whole, and with what the environment takes away."""
    problems: list[str] = []
    if doctor["ok"] != (word != REFUSES) and word != BROKEN:
        problems.append(f"doctor says {(doctor['ok'] and 'ok') or 'no'}, launches: {word}")
    if cell.needed != (word == REFUSES) and word != BROKEN:
        problems.append(f"this should {'be refused' if cell.needed else 'work'}: {word}")
    for each in refused:
        if not any(thing in each for thing in doctor["missing"]):
            problems.append(f"doctor misses {doctor['missing']}, the refusal says: {each}")
            break
    unseen, unmeant = {*cell.worse} - worse, worse - {*cell.worse, *cell.may}
    problems += [f"doctor does not say that {key} is worse here" for key in sorted(unseen)]
    problems += [f"doctor says that {key} is worse here" for key in sorted(unmeant)]
    return problems


def _of_one(told: Told, findings: Mapping[str, Told]) -> list[str]:
    """Compare one check with the finding that is about it."""
    found = [findings[key] for key in TOLD_BY[told["check"]]]
    works = all(each["data"] is not False for each in found)
    if told["came"] == "broken" or works == (told["came"] == "works"):
        return []
    values = ", ".join(each["value"] for each in found)
    return [f"doctor says of {told['check']}: {values}; the launch: {told['came']}"]
