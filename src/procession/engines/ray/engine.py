"""Ray as an engine: a placement group of one bundle per node, with an actor in each.

Theory of operation. The bundles are spread strictly, so that no two are on one node. In each is one
actor that asks for all of its bundle and holds the node process (`actor`); the actor's one call
ends when the node process does, and fails when the actor or its node is gone. Actors and placement
group belong to this process's job in Ray and go with it, however it ends.

When a node dies, Ray notices that after some 10 to 20 s. Until then its bundle counts as placed,
and an actor for it waits; then the actor fails, and Ray places the bundle anew. So `replace` tries,
and tries again when the bundle has another node. Everything that waits for nodes does so in a
thread, which notices within a second that the engine is closed.

The key is an argument of the actor's call: that is sent from here to the actor, and is neither
shown nor stored, unlike a runtime_env or the arguments of an actor's constructor.

Rejected: ranks as actors, one each (no process tree of our own, Ray's environment and signals in
each, and ten seconds until the end of a node is seen); `ray.train` (it runs functions only, and
has its own restarts); tasks instead of actors (Ray runs a task again on its own account).
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from signal import Signals
from typing import Any

from procession.engines.contract import (
    Chosen,
    EngineError,
    EngineEvent,
    NodeCommand,
    Said,
    SlotGone,
)
from procession.engines.ray.actor import NodeActor
from procession.engines.ray.cluster import (
    RayCluster,
    asked,
    plainly,
    ray_module,
    said,
)
from procession.prepare.work import Share
from procession.values.errors import SpecError

SPEAKS = 3.0  # seconds of waiting for nodes before people are told so
FADES = 5.0  # seconds in which actors must be gone after they were killed
OF_GPUS = ("cuda", "rocm")  # kinds of devices that Ray counts as GPUs
LOOKS = 0.25  # seconds between two looks at the state of nodes


class RayEngine:
    """Nodes from Ray.

    nnodes: how many nodes. spares: how many more are held idle, for when one is lost.
    cpus, gpus, resources: what each node must give, in Ray's units: for n ranks on a node, n times
        what a rank needs. By default one CPU. CUDA_VISIBLE_DEVICES is as Ray sets it by gpus.
    address: HOST:PORT of the cluster's head, "auto" for the one that was started on this machine,
        or "local" for a Ray of its own (one node). By default RAY_ADDRESS, else "auto", else, for
        one node, "local". If this process has called `ray.init`, that is used, and left as it is.
    wait: seconds to wait at the start for nodes that are not free.
    patience: seconds in which another node must be found for one that is lost.

    `start` must be called in a thread that lives until `close`: a Ray of its own ends with it.
    Neither `start` nor `replace` waits for nodes; if there is none, SlotGone follows.
    Raises SpecError for numbers that make no sense.
    """

    name = "ray"

    def __init__(
        self,
        nnodes: int = 1,
        *,
        spares: int = 0,
        cpus: float | None = None,
        gpus: float | None = None,
        resources: Mapping[str, float] | None = None,
        address: str | None = None,
        wait: float = 30.0,
        patience: float = 60.0,
    ) -> None:
        if nnodes < 1 or spares < 0:
            raise SpecError(f"nnodes={nnodes}, spares={spares}: one node is the least")
        self.slots = nnodes + spares
        self._bundle = _bundle(cpus, gpus, resources or {})
        self._cluster = RayCluster(address)
        self._wait = wait
        self._patience = patience
        self._group: Any = None
        self._actors: dict[int, Any] = {}
        self._calls: dict[int, Any] = {}
        self._closing = threading.Event()
        self._waiting: list[threading.Thread] = []

    def check(self) -> None:
        """Refuse early what is sure to fail. Raises SpecError or EngineError."""
        self._cluster.find(self.slots)

    def start(self, command: NodeCommand, tell: Callable[[EngineEvent], None]) -> None:
        """Ask for the nodes; when they are there, a node process is started on each.

        SlotGone, of all, follows if they do not come within `wait`. Raises EngineError.
        """
        self._command, self._tell = command, tell
        self._directory = os.getcwd()
        self._cluster.connect(self.slots)
        with plainly("it made no placement group"):
            self._group = ray_module("ray.util").placement_group(
                [self._bundle] * self.slots, strategy="STRICT_SPREAD"
            )
        self._wait_in_thread(self._start_nodes, None)

    def replace(self, slot: int) -> None:
        """Have a new node process started in a slot, on its node or on another one.

        SlotGone follows if no node is found within `patience`.
        """
        self._calls.pop(slot, None)  # its events are ignored from now on
        self._end_actor(slot)
        self._wait_in_thread(lambda: self._replace(slot), slot)

    def kill(self) -> None:
        """Kill all actors; their node processes end with them."""
        for actor in list(self._actors.values()):
            _kill(actor)

    def close(self) -> None:
        """End all actors, give the nodes back, and disconnect from Ray if `start` has connected."""
        self._closing.set()
        for thread in self._waiting:
            thread.join()
        if self._group is not None:
            self.kill()
            calls = list(self._calls.values())
            with contextlib.suppress(Exception):  # the cluster may be gone
                ray_module().wait(calls, num_returns=len(calls), timeout=FADES)
            with contextlib.suppress(Exception):
                ray_module("ray.util").remove_placement_group(self._group)
        self._cluster.leave()

    def _wait_in_thread(self, do: Callable[[], None], slot: int | None) -> None:
        """Do what waits for nodes in a thread, so that it never delays a kill or the end."""

        def run() -> None:
            try:
                with plainly("it gave no nodes"):
                    do()
            except EngineError as e:
                if not self._closing.is_set():
                    self._tell(SlotGone(slot, str(e)))

        thread = threading.Thread(target=run, name="procession-ray", daemon=True)
        self._waiting.append(thread)
        thread.start()

    def _start_nodes(self) -> None:
        self._wait_for_nodes()
        for slot in range(self.slots):
            self._make_actor(slot)
            self._run_node(slot)

    def _wait_for_nodes(self) -> None:
        wanted = f"{self.slots} node{'s' * (self.slots > 1)} with {asked(self._bundle)} each"
        begun = time.monotonic()
        said_so = False
        while not self._group.wait(1):
            waited = time.monotonic() - begun
            lack = self._cluster.lacks(self._bundle, self.slots)
            if waited > self._wait or self._closing.is_set():
                raise EngineError(f"Ray did not give {wanted} within {waited:.0f} s: {lack} [P208]")
            if waited > SPEAKS and not said_so:
                self._tell(Said(f"waiting for {wanted}: {lack}"))
                said_so = True

    def _replace(self, slot: int) -> None:
        deadline = time.monotonic() + self._patience
        self._tell(Said(f"waiting for a node in place of that of slot {slot}"))
        while True:
            table = ray_module("ray.util").placement_group_table(self._group)
            node = table["bundles_to_node_id"].get(slot)
            if table["state"] == "CREATED" and node in self._cluster.nodes():
                if self._comes(self._make_actor(slot), deadline):
                    self._run_node(slot)
                    return
                self._end_actor(slot)  # its node is dead, as Ray knows by now
            if time.monotonic() > deadline:
                lack = self._cluster.lacks(self._bundle, self.slots)
                raise EngineError(
                    f"Ray found no node for slot {slot} within {self._patience:g} s: it needs "
                    f"{self.slots} with {asked(self._bundle)} each, and {lack}; have one spare "
                    "node [P208]"
                )
            if self._closing.wait(LOOKS):
                raise EngineError("closed while it waited for a node")

    def _comes(self, ready: Any, deadline: float) -> bool:
        """Wait for an actor; tells whether it is there."""
        ray = ray_module()
        while not ray.wait([ready], timeout=1)[0]:
            if self._closing.is_set() or time.monotonic() > deadline:
                return False
        try:
            ray.get(ready)
        except ray.exceptions.RayError:
            return False
        return True

    def _make_actor(self, slot: int) -> Any:
        """Have an actor made in a slot's bundle; gives what is ready when it is."""
        strategies = ray_module("ray.util.scheduling_strategies")
        rest = dict(self._bundle)
        cpus, gpus, memory = (rest.pop(k, 0) for k in ("CPU", "GPU", "memory"))
        actor = (
            ray_module()
            .remote(NodeActor)
            .options(
                num_cpus=cpus,
                num_gpus=gpus,
                memory=memory or None,
                resources=rest,
                max_restarts=0,
                max_task_retries=0,
                scheduling_strategy=strategies.PlacementGroupSchedulingStrategy(
                    self._group, placement_group_bundle_index=slot
                ),
            )
            .remote()
        )
        self._actors[slot] = actor
        return actor.where.remote()

    def _run_node(self, slot: int) -> None:
        call = self._actors[slot].run.remote(
            slot, self._command.argv, dict(self._command.env), self._directory
        )
        self._calls[slot] = call

        def ended(future: Future[tuple[str, int, list[str]]]) -> None:
            if not self._closing.is_set() and self._calls.get(slot) is call:
                error = future.exception()
                self._tell(SlotGone(slot, said(error) if error else _died(*future.result())))

        call.future().add_done_callback(ended)

    def _end_actor(self, slot: int) -> None:
        actor = self._actors.pop(slot, None)
        if actor is not None:
            _kill(actor)


def _kill(actor: Any) -> None:
    with contextlib.suppress(Exception):  # it is gone already
        ray_module().kill(actor, no_restart=True)


def _died(host: str, status: int, tail: list[str]) -> str:
    how = f"was killed by {Signals(-status).name}" if status < 0 else f"exited with {status}"
    last = next((f": {line.strip()}" for line in reversed(tail) if status and line.strip()), "")
    return f"its node process on {host} {how}{last}"


def _bundle(
    cpus: float | None, gpus: float | None, resources: Mapping[str, float]
) -> dict[str, float]:
    wanted = {"CPU": 1 if cpus is None else cpus, "GPU": gpus or 0, **resources}
    for name, amount in wanted.items():
        if amount < 0 or (amount > 1 and amount != int(amount)):
            raise SpecError(f"{amount:g} {name}: Ray counts whole ones, or a part of one")
    bundle = {name: amount for name, amount in wanted.items() if amount}
    if not bundle:
        raise SpecError("no resources: Ray needs to know at least one that a node must give")
    return bundle


def choose(share: Share, nodes: int | None, spares: int, _: Mapping[str, str]) -> Chosen:
    """Make the engine of `--engine ray`. Raises SpecError."""
    spec = share.spec
    if nodes is None:
        raise SpecError("how many nodes of the Ray cluster? Say --nnodes COUNT, or nnodes=COUNT")
    gpus = spec.nproc * (share.gpus or int(share.devices in OF_GPUS)) or None
    cpus = spec.nproc * (spec.placement.cpus_per_rank or 1)
    return Chosen(RayEngine(nodes, cpus=cpus, gpus=gpus, spares=spares), share, nodes)
