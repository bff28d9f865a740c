"""Makes a group on several machines; all is checked before nodes are asked for."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from procession.agent.boot import check_python
from procession.driver.job import LEASE, JobDriver
from procession.driver.plugins import chosen, handlers_of
from procession.driver.reception import Reception
from procession.engines.contract import Engine, EngineError, EngineEvent, NodeCommand, choose
from procession.engines.nodeprocess import NodeProcess
from procession.engines.rendezvous.secret import Trust
from procession.engines.rendezvous.terms import SPARES, Terms
from procession.engines.tunnel import check
from procession.engines.will import Will
from procession.group.group import Group
from procession.output.rundir import RunFiles, directory_name
from procession.prepare.asked import asked_of
from procession.prepare.work import Share, Work, divide
from procession.values.errors import GroupEnd, SpecError
from procession.values.events import Event
from procession.values.ranks import is_by_rank
from procession.values.spec import Spec, make_spec


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
    lease: float | None = None,
    on_failure: Callable[[GroupEnd], object] | None = None,
    on_event: Callable[[Event], object] | None = None,
    control: bool | None = None,
    link_encryption: str | None = None,
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
        lease=LEASE if lease is None else checked_lease(lease),
        on_failure=on_failure,
        on_event=on_event,
        control=control,
        link_encryption=link_encryption or "auto",
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
    lease: float,
    on_failure: Callable[[GroupEnd], object] | None = None,
    on_event: Callable[[Event], object] | None = None,
    control: bool | None,
    link_encryption: str,
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
    plugins = chosen()
    directory = RunFiles(work.spec.logs, work.nproc, directory_name(work.spec.name, os.environ))
    try:
        driver = JobDriver(
            work,
            engine,
            lease=lease,
            encrypted=link_encryption == "required",
            on_failure=on_failure,
            files=directory,
            reception=reception,
        )
    except BaseException:
        directory.close()
        raise
    group = Group(driver, control)
    asked = {**asked_of(work.spec, driver.run_id), "engine": engine.name, "nodes": work.nodes}
    directory.write_run(asked)
    for handler in handlers_of(plugins, lambda: asked, on_event):
        group.subscribe(handler)
    return group


class Launchers:
    """The engine of a driver whose nodes come by themselves: it runs this machine's node process.

    node: of this machine.
    """

    name = "rendezvous"

    def __init__(self, terms: Terms, node: NodeProcess) -> None:
        # How many may be there: those of a job, and others that wait for a place.
        self.slots = terms.most + (SPARES if terms.number is None else 0)
        self._node = node
        self._thread: threading.Thread | None = None

    def check(self) -> None:
        """Find nothing: there is nothing to look at before launchers come."""

    def start(self, command: NodeCommand, tell: Callable[[EngineEvent], None]) -> None:
        """Start the node process of this machine; the others come."""
        self._thread = threading.Thread(target=self._node.run, name="procession-node", daemon=True)
        self._thread.start()

    def replace(self, slot: int) -> None:
        """Do nothing: whoever comes next gets the place."""

    def kill(self) -> None:
        """Have the ranks of this machine ended; others end when their driver is silent."""
        self._node.let_go()

    def close(self) -> None:
        """Wait for the node process of this machine."""
        if self._thread is not None:
            self._thread.join()


def make_hosted_job(
    spec: Spec,
    terms: Terms,
    door: socket.socket,
    trust: Trust,
    *,
    node: NodeProcess,
    last_words: Callable[[GroupEnd], dict[str, Any]],
    elects: bool = False,
    inherits: Will | None = None,
    **options: Any,
) -> Group:
    """Make the job of all machines, on the one that hosts the rendezvous.

    spec: what each machine runs. door: listens at the agreed port. node: of this machine.
    last_words: what all launchers are told at the end. elects, inherits: see `Reception`.
    options: of `group_on`.
    """
    work = divide(Share(spec), terms.most)
    missing = dict(enumerate(terms.together))
    reception = Reception(door, trust, terms, missing, last_words, elects, inherits)
    return group_on(work, Launchers(terms, node), lease=terms.lease, reception=reception, **options)


def share_of(spec: Spec, terms: Terms) -> Spec:
    """Give what one machine runs.

    Prefixes name the machine only where the lines of all come to one console. A machine with one
    rank has prefixes as well: what it writes is seen then.
    """
    own = divide(Share(spec), terms.most).spec
    if terms.starter:
        return own
    prefix = "[{rank}] " if spec.logs.prefix == "auto" and terms.most > 1 else spec.logs.prefix
    return own.__replace__(logs=spec.logs.__replace__(prefix=prefix))
