"""The numbers of a whole job: when its ranks stop, hang and start again.

Launchers that were started one on each machine may have been given different ones. Those of the
launcher that hosts the rendezvous count on all machines.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from procession.values.policy import Hang, Restart, Stop
from procession.values.spec import Spec

Numbers = dict[str, dict[str, Any]]  # by the policy, then by its field, as JSON can hold them


def numbers_of(spec: Spec) -> Numbers:
    """Give the numbers of a job."""
    stop, hang, restart = ({**vars(each)} for each in (spec.stop, spec.hang, spec.restart))
    stop["signal"], restart["never"] = int(stop["signal"]), sorted(restart["never"])
    return {"stop": stop, "hang": hang, "restart": restart}


def with_numbers(spec: Spec, numbers: Mapping[str, Any]) -> Spec:
    """Give the spec with these numbers. Raises ValueError, TypeError or KeyError."""
    given: dict[str, Any] = {**numbers["restart"], "never": tuple(numbers["restart"]["never"])}
    stop, hang, restart = Stop(**numbers["stop"]), Hang(**numbers["hang"]), Restart(**given)
    for each in (stop, hang, restart):
        each.check()
    return spec.__replace__(stop=stop, hang=hang, restart=restart)


def say_difference(own: Numbers, host: Numbers) -> str:
    """Say which numbers of the host differ from those of this launcher, "" if none does."""
    found = [
        f"{policy} {field} {theirs} (here {own[policy][field]})"
        for policy, fields in host.items()
        for field, theirs in fields.items()
        if theirs != own[policy][field]
    ]
    if not found:
        return ""
    return (
        f"the launcher that hosts the rendezvous was given other numbers, which count on all "
        f"machines: {', '.join(found)}; give all launchers the same options"
    )
