"""Makes a group on several machines; all is checked before nodes are asked for."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from procession.agent.boot import check_python
from procession.driver.job import LEASE, JobDriver
from procession.driver.reception import Reception
from procession.engines.contract import Engine, EngineError
from procession.engines.registry import choose
from procession.engines.tunnel import check
from procession.group.group import Group
from procession.output.rundir import Files, directory_name, run_of
from procession.prepare.asked import asked_of
from procession.prepare.work import Share, Work, divide
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
) -> Group:
    """Make a group on an engine that is not started yet; parameters as those of `procession.start`.

    lease: seconds of silence after which a node is lost. link_encryption: "auto" or "required",
    see `procession.start_on`. Raises SpecError and EngineError.
    """
    given: dict[str, Any] = {"args": args, "kwargs": kwargs, "env": env}
    common = {name: value for name, value in given.items() if not is_by_rank(value)}
    spec = make_spec(program, nproc=nproc, **common, **policies)
    for name in ("shared", "pass_fds", "warm"):
        if getattr(spec, name) not in (None, ()):
            raise SpecError(
                f"{name} is for the ranks of one machine; it does not go with an engine"
            )
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
    return group_on(
        divide(share, nodes, whole),
        chosen,
        lease=checked_lease(lease),
        on_failure=on_failure,
        on_event=on_event,
        control=control,
        link_encryption=link_encryption,
    )


def checked_lease(lease: float) -> float:
    """Give the lease as it is. Raises SpecError if it is none."""
    if type(lease) not in (int, float) or not 1 <= lease < 1e6:
        raise SpecError(f"lease must be seconds, 1 or more, not {lease!r}")
    return lease


def group_on(
    work: Work,
    engine: Engine,
    *,
    lease: float = LEASE,
    on_failure: Callable[[GroupEnd], object] | None = None,
    on_event: Callable[[Event], object] | None = None,
    control: bool | None = None,
    link_encryption: str = "auto",
    reception: Reception | None = None,
) -> Group:
    """Make the group of this work. reception: where node processes come by themselves.

    Raises SpecError and EngineError.
    """
    check(link_encryption)
    try:
        check_python()  # of which node processes are started
    except OSError as e:
        raise EngineError(e.strerror or str(e)) from None
    engine.check()
    called = directory_name(work.spec.name, os.environ)
    directory = Files(work.spec.logs, work.nproc, called)
    made: list[Group] = []
    try:
        driver = JobDriver(
            work,
            engine,
            lease=lease,
            encrypted=link_encryption == "required",
            run_id=run_of(directory.path),
            on_failure=on_failure,
            directory=directory if directory.kept else None,
            reception=reception,
            say=lambda text: made[0].say(f"procession: {text}"),
        )
    except BaseException:
        directory.close()
        raise
    group = Group(driver, driver.display, directory, driver.run_id, control)
    made.append(group)
    of_job = {"engine": engine.name, "nodes": work.nodes, "restart": repr(work.restart)}
    directory.write_run({**asked_of(work.spec, driver.run_id), **of_job})
    if on_event is not None:
        group.subscribe(on_event)
    return group
