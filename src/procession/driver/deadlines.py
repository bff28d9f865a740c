"""How long each deadline of a job is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from procession.driver.reception import Reception
from procession.rules.jobwords import DeadlineKind
from procession.values.spec import Spec

MARGIN = 5.0  # seconds beyond all deadlines of a group, for its node process's own work
SETTLE = 0.5  # seconds for further nodes, when one came or went in an elastic job


def seconds_of(
    kind: DeadlineKind,
    spec: Spec,
    stop_how: Mapping[str, Any],
    reception: Reception | None,
    *,
    backoff: float,
    fence: float,
    running: bool,
) -> float:
    """Give the seconds until a deadline.

    stop_how: what a stop was asked for with. backoff: seconds until the next attempt. fence:
    seconds until no lost node has ranks any more. running: whether there was an attempt.
    """
    if kind is DeadlineKind.STOP:
        grace = stop_how.get("grace", spec.stop.grace)
        notice = stop_how.get("notice", spec.stop.notice)
        return notice + grace + spec.stop.reap + MARGIN
    if kind is DeadlineKind.KILL:
        return spec.stop.reap + MARGIN
    if kind is DeadlineKind.BACKOFF:
        return backoff
    if kind is DeadlineKind.GATHER:
        return reception.gather if reception is not None else spec.hang.start
    assert kind is DeadlineKind.LAST_CALL
    if reception is None:
        return 0.0
    return max(min(reception.last_call, SETTLE), fence) if running else reception.last_call
