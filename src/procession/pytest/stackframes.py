"""Leaving pytest's own frames out of stacks: people look for what the test has called."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

RUNNERS = ("/_pytest/", "/pluggy/", "/procession/pytest/")  # files of what calls tests


def _is_runner(file: str) -> bool:
    return any(each in file for each in RUNNERS)


def of_test(frames: list[Any]) -> list[Any]:
    """Leave of a stack (the innermost frame first) what the test has called, if it has begun."""
    runner = next((n for n, frame in enumerate(frames) if _is_runner(frame[0])), len(frames))
    return frames[:runner] or frames


def without_runner(text: str) -> str:
    """Leave the frames that are not the test's out of the stacks that a crash has printed."""
    kept: list[str] = []
    runner = False
    for line in text.splitlines(keepends=True):
        runner = line.startswith("  File ") and (runner or _is_runner(line))
        if not runner:
            kept.append(line)
    return "".join(kept)
