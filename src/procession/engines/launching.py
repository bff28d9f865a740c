"""From what a user asks to a job: checked, before an engine is asked for anything."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from procession.engines.choose import choose
from procession.engines.driver import LEASE
from procession.engines.job import Job
from procession.engines.work import Share, divide
from procession.errors import GroupEnd, SpecError
from procession.events import Event
from procession.ranks import is_by_rank
from procession.spec import make_spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from procession.engines.contract import Engine


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
    **policies: Any,
) -> Job:
    """Make a job that is not started yet; parameters as those of `procession.start`.

    lease: seconds without a word after which a node is lost. Raises SpecError and EngineError.
    """
    by_rank = [is_by_rank(given) for given in (args, kwargs, env)]
    common = [
        () if by_rank[0] else args,
        None if by_rank[1] else kwargs,
        None if by_rank[2] else env,
    ]
    spec = make_spec(
        program, nproc=nproc, args=common[0], kwargs=common[1], env=common[2], **policies
    )
    share = Share(spec, devices=devices or "")
    if isinstance(engine, str):
        chosen, share, nodes = choose(engine, share, nnodes)
    else:
        chosen, nodes = engine, nnodes or engine.slots
    whole = None
    if any(by_rank):
        world = {"nproc": nproc * nodes, "args": args, "kwargs": kwargs, "env": env}
        whole = make_spec(program, **world, **{n: v for n, v in policies.items() if n != "logs"})
    if type(lease) not in (int, float) or not 1 <= lease < 1e6:
        raise SpecError(f"lease must be seconds, 1 or more, not {lease!r}")
    return Job(
        divide(share, nodes, whole), chosen, lease=lease, on_failure=on_failure, on_event=on_event
    )


__all__ = ["make_job"]
