"""Makes a job from what a user asks for; all of it is checked before nodes are asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from procession.engines.contract import Engine
from procession.engines.driver import LEASE
from procession.engines.job import Job
from procession.engines.registry import choose
from procession.engines.work import Share, divide
from procession.values.errors import GroupEnd, SpecError
from procession.values.events import Event
from procession.values.ranks import is_by_rank
from procession.values.spec import make_spec


def make_job(
    program: Any,
    *,
    engine: str | Engine,
    nnodes: int | None,
    nproc: int,
    args: Sequence[Any] | Mapping[int, Sequence[Any]] = (),
    kwargs: Mapping[Any, Any] | None = None,
    env: Mapping[Any, Any] | None = None,
    devices: str | None = None,
    lease: float = LEASE,
    on_failure: Callable[[GroupEnd], object] | None = None,
    on_event: Callable[[Event], object] | None = None,
    control: bool | None = None,
    link_encryption: str = "auto",
    **policies: Any,
) -> Job:
    """Make a job that is not started yet; parameters as those of `procession.start`.

    lease: seconds of silence after which a node is lost. link_encryption: "auto" or "required",
    see `procession.start_on`. Raises SpecError and EngineError.
    """
    given: dict[str, Any] = {"args": args, "kwargs": kwargs, "env": env}
    common = {name: value for name, value in given.items() if not is_by_rank(value)}
    spec = make_spec(program, nproc=nproc, **common, **policies)
    if spec.shared is not None:
        raise SpecError("shared is for the ranks of one machine; it does not go with an engine yet")
    if spec.pass_fds:
        raise SpecError("pass_fds is for the ranks of one machine; it does not go with an engine")
    if spec.warm is not None:
        raise SpecError("warm is for the ranks of one machine; it does not go with an engine")
    share = Share(spec, devices=devices or "")
    if isinstance(engine, str):
        found = choose(engine, share, nnodes)
        chosen, share, nodes = found.engine, found.share, found.nodes
    else:
        chosen, nodes = engine, nnodes or engine.slots
    whole = None
    if len(common) < len(given):
        of_a_node = ("logs", "placement")  # they are checked for the ranks of one machine
        others = {name: value for name, value in policies.items() if name not in of_a_node}
        whole = make_spec(program, nproc=nproc * nodes, **given, **others)
    if type(lease) not in (int, float) or not 1 <= lease < 1e6:
        raise SpecError(f"lease must be seconds, 1 or more, not {lease!r}")
    return Job(
        divide(share, nodes, whole),
        chosen,
        lease=lease,
        on_failure=on_failure,
        on_event=on_event,
        control=control,
        link_encryption=link_encryption,
    )
