"""The ranks of one node in one attempt: a node process runs them, and tells the driver of them.

Theory of operation. This is what a launcher does for its own machine (see `machine`), without
deciding anything: what happens to ranks is sent to the driver. When nothing is left of the attempt,
and its output was sent, the last message says how it ended here.

What may take long is done in a thread that lives as long as the node process does, for an agent
ends with the thread that has started it.
"""

from __future__ import annotations

import os
import pickle
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from procession.agent.client import Agent
from procession.agent.protocol import STACK_SECONDS
from procession.engines.addresses import with_interface
from procession.engines.ownnode import OwnNode, plan_output
from procession.engines.plain import plain_group, plain_rank
from procession.engines.wire import Piece
from procession.explain.ends import not_started, start_failed
from procession.explain.stacks import text
from procession.machine.hangs import HANG_SECONDS
from procession.machine.looking import kill_at, ranks_of, stacks_of
from procession.machine.machine import Machine
from procession.prepare.jobs import RankJobs
from procession.prepare.payload import Packed
from procession.rules import messages
from procession.rules.tables import Phase
from procession.system.eventloop import EventLoop
from procession.system.relay import relay
from procession.system.threads import Errands
from procession.values.environment import Node
from procession.values.errors import GroupEnd, Outcome, RankEnd
from procession.values.policy import StopRequest
from procession.values.program import Function
from procession.values.spec import Spec

Fields = dict[str, Any]
Send = Callable[..., None]  # kind of message, fields, blob

DRAIN_SECONDS = 2.0  # for output that is still to be sent, where the job is being ended
WORKING = (Phase.STARTING, Phase.RUNNING)


class NodeRun:
    """Runs one attempt. All methods are for the thread of the loop.

    Other terminals see one run, the job: there is no socket of this node's own.

    send: sends a message. done: called when nothing is left, and `finish` may be called. disk: the
    thread for what takes long.
    """

    def __init__(
        self,
        loop: EventLoop,
        send: Send,
        fields: Fields,
        blob: bytes | bytearray,
        done: Callable[[NodeRun], None],
        copied: str,
        own: OwnNode | None,
        disk: Errands,
    ) -> None:
        spec: Spec = pickle.loads(blob) if own is None else own.spec
        self.number, self.is_last = int(fields["attempt"]), bool(fields["last"])
        spec = with_interface(spec, str(fields["interface"]))
        self.spec = spec.__replace__(node=_node(fields["node"], own))
        if copied:
            self.spec = moved(self.spec, copied, os.getcwd(), os.environ.get("PYTHONPATH", ""))
        self._place = str(fields["place"])
        self._devices, self._gpus = str(fields["devices"]), int(fields["gpus"])
        if own is not None:  # its launcher has dealt devices
            self._place, self._devices, self._gpus = own.place(self._place), "", 0
        self._own = own
        self._loop = loop
        self._send = send
        self._done = done
        self._disk = disk
        self._machine: Machine | None = None  # None while it is not made yet
        self._waiting: list[tuple[StopRequest, float]] = []  # see `end`
        self._notes: list[str] = []
        self._debugged: dict[int, socket.socket] = {}
        self._failed = self._ready = False  # whether that was told
        self._ends = self._hurry = self._reads = False
        self._state = "FAILED"
        self._end: GroupEnd | None = None

    # -- the beginning

    def start(self) -> None:
        """Make what the ranks need, and start them; returns at once."""
        self._disk.do_later("making what ranks need", self._make, always=True)

    def _make(self) -> None:
        try:
            plan = self._own.plan if self._own is not None else plan_output
            spec, output = plan(self._with_devices(), self._place)
            jobs = RankJobs(spec, output)
            try:
                agent = jobs.lease()
            except BaseException:
                jobs.close(None, clean=False)
                raise
        except OSError as e:
            self._end = start_failed(self.spec, e).end
            self._loop.request(lambda: self._done(self))
        except Exception as e:
            why = f"{type(e).__name__}: {e}".removeprefix("SpecError: ")
            cause = not_started(f"could not be started: {why}")
            self._end = GroupEnd(self.spec.name, self.spec.nproc, failures=(cause,))
            self._loop.request(lambda: self._done(self))
        else:
            self.spec = spec
            if not self._loop.request(lambda: self._begin_attempt(jobs, agent)):
                jobs.close(agent, clean=False)  # the node process has ended meanwhile

    def _with_devices(self) -> Spec:
        """Give each rank its own of the devices that the engine gave this node."""
        if not self._devices and not self._gpus:
            return self.spec
        from procession.devices import deal, deal_shares

        if self._devices:
            return deal(self.spec, self._devices)
        return deal_shares(self.spec, self._gpus)

    def _begin_attempt(self, jobs: RankJobs, agent: Agent) -> None:
        disk = self._disk
        around = self._note, lambda: None, disk, disk
        machine = self._machine = Machine(self.spec, jobs, agent, self._loop, self, *around)
        if machine.hangs is not None and self.spec.node.count > 1:
            machine.hangs.share_activity(time.monotonic_ns())
        machine.begin_attempt()
        for request, stacks in self._waiting:
            self.end(request, stacks)

    # -- what happens, see `machine.Listener`

    def begins(self) -> None:
        """Tell nothing: the driver has begun with the attempt."""

    def happened(self, event: messages.Event) -> None:
        """Report at once what concerns other nodes."""
        machine = self._machine
        assert machine is not None
        life = machine.life
        if life.phase is Phase.RUNNING and not self._ready:
            self._ready = True
            self._tell("ready", {})
        if life.phase not in WORKING and not self._failed:
            failure = machine.outcomes.first_failure(read=False)
            if failure is not None:
                self._failed = True
                self._tell("failed", {"end": plain_rank(failure)})
        if life.phase.final:
            self._finish(machine)

    def _note(
        self,
        kind: str,
        rank: int,
        attempt: int,
        at: int,
        pid: int | None,
        detail: str,
        facts: Mapping[str, Any],
    ) -> None:
        """Tell the driver of an event of a rank."""
        said = {"event": kind, "rank": rank, "life": attempt, "at": at, "pid": pid}
        self._tell("event", {**said, "detail": detail, "facts": dict(facts)})

    def asked(self, rank: int, attempt: int) -> None:
        """Ask the driver whether a single rank starts again."""
        assert self._machine is not None
        outcomes = self._machine.outcomes

        def read() -> None:
            end = plain_rank(outcomes.of_rank(rank, failed=True))
            asked = {"rank": rank, "life": attempt, "end": end}
            self._loop.request(lambda: self._tell("asked", asked))

        self._disk.do_later("reading what a rank has left", read, always=True)

    def debugs(self, rank: int, fd: int) -> None:
        """Have the driver talk with a rank."""
        sock = self._debugged[rank] = socket.socket(fileno=fd)
        relay(self._loop, sock, lambda data: self._tell("debug", {"rank": rank}, data))
        self._tell("debugs", {"rank": rank})

    def remarked(self, said: str) -> None:
        """Take a remark about the imports, for the report."""
        self._notes.append(said)

    def suspended(self) -> None:
        """Go on: nobody suspends a node process."""

    def _tell(self, kind: str, fields: Fields, blob: Piece = b"") -> None:
        self._send(kind, {"attempt": self.number, **fields}, blob)

    # -- what the driver wants

    def obey(self, fields: Fields) -> None:
        """Stop as the driver says, see `StopRequest`; failed: other ranks failed."""
        if int(fields["attempt"]) != self.number:
            return
        how = {name: fields[name] for name in ("signal", "grace", "notice") if name in fields}
        wants = {name: bool(fields.get(name)) for name in ("kill", "stacks")}
        request, failed = StopRequest(**wants, **how), fields.get("failed")
        seconds = 0.0
        if failed and self.spec.hang.stacks:
            seconds = HANG_SECONDS if fields.get("hung") else STACK_SECONDS
        self.end(request, seconds)

    def end(self, request: StopRequest, stacks: float = 0.0) -> None:
        """End the ranks, as soon as there are some. stacks: see `Machine.stop`."""
        self._hurry, machine = True, self._machine
        if machine is None:
            self._waiting.append((request, stacks))
        elif self._ends:
            self._read_all(machine)
        else:
            machine.stop(request, stacks)

    def signal(self, fields: Fields) -> None:
        """Send every rank a signal, or the one that is named."""
        if self._machine is not None:
            rank = int(fields["rank"]) if "rank" in fields else None
            caught = bool(fields.get("only_caught"))
            self._machine.signal(rank, int(fields["number"]), caught, time.monotonic_ns())

    def debug(self, fields: Fields, said: bytes) -> None:
        """Pass on what a rank is told by who debugs it."""
        sock = self._debugged.get(int(fields["rank"]))
        if sock is not None:
            with suppress(OSError):  # it is gone
                sock.sendall(said)

    def debugged(self, *, debugs: bool) -> None:
        """Take note whether some rank of the job is stopped by its debugger."""
        if self._machine is not None:
            self._machine.debugs(debugs=debugs)

    def take_decision(self, fields: Fields) -> None:
        """Take the driver's answer about a single rank."""
        if int(fields["attempt"]) == self.number and self._machine is not None:
            answer = bool(fields["again"]), float(fields["delay"]), str(fields["said"])
            self._machine.answer(int(fields["rank"]), int(fields["life"]), *answer)

    def share_activity(self, now: int, fields: Fields) -> int:
        """Learn from a heartbeat when other nodes' ranks wrote last; gives when those here did."""
        hangs = self._machine.hangs if self._machine is not None else None
        if hangs is None or "quiet" not in fields:
            return 0
        return hangs.share_activity(now - int(fields["quiet"]))

    def answer(self, fields: Fields) -> None:
        """Answer a question about the state of the ranks, or their stacks; returns at once."""
        number, machine = fields["id"], self._machine

        def reply(value: Any) -> None:
            self._send("answer", {"id": number, "value": value})

        if machine is None:
            reply(None)
        elif fields["about"] == "look":
            reply(_describe_ranks(machine))
        else:
            seconds, native = float(fields["seconds"]), bool(fields["native"])

            def find() -> None:
                stacks = stacks_of(machine, self._loop, seconds, native=native)
                self._loop.request(lambda: reply(stacks))

            threading.Thread(target=find, name="procession-answer", daemon=True).start()

    # -- the end

    def _finish(self, machine: Machine) -> None:
        """Have all output shown, which takes as long as its reader takes, and come to the end."""
        self._ends = True
        if self._hurry:
            self._read_all(machine)
        else:
            streams = machine.resources.streams
            streams.finish(lambda: self._loop.request(lambda: self._read_all(machine)))

    def _read_all(self, machine: Machine) -> None:
        """Read what ranks have left."""
        if not self._reads:
            self._reads = True
            read = self._disk.do_later
            read("reading what ranks have left", lambda: self._conclude(machine), always=True)

    def _conclude(self, machine: Machine) -> None:
        resources, notes = machine.resources, [*self._notes]
        machine.show_together()
        if not resources.streams.drain(DRAIN_SECONDS):
            notes.append("the console did not accept all output in time; the rest is lost [P407]")
        machine.take_unshown()
        if resources.run_dir.kept:
            resources.run_dir.check()
        self._end = machine.end([*notes, *machine.notes, *machine.losses])
        self._state = machine.life.phase.name
        self._loop.request(lambda: self._done(self))

    def tell_end(self) -> None:
        """Report how the attempt ended on this node: values first, then everything else."""
        errors: dict[int, Fields] = {}
        stacks: list[Fields] = []
        machine = self._machine
        if machine is not None:
            errors = {r.rank: r.description for r in machine.records if r.description}
            first = self.spec.node.first(self.spec.nproc)
            seen = text.together(machine.last_look.stacks)
            stacks = [
                {"said": s.said, "ranks": s.ranks, "within": s.within, "calls": s.calls}
                for s in seen
            ]
            if self._own is not None:
                self._own.values = dict(self._values(machine))
                self._own.errors, self._own.first, errors = errors, first, {}
            elif self._state == "SUCCEEDED":
                self._send_values(machine)
        assert self._end is not None
        looked = _describe_ranks(machine) if machine is not None else None
        end = {"state": self._state, "end": plain_group(self._end), "stacks": stacks}
        end = {**end, "looked": looked}
        self._tell("ended", {**end, "told": {str(rank): each for rank, each in errors.items()}})

    @staticmethod
    def _values(machine: Machine) -> Iterator[tuple[int, Piece]]:
        for record in machine.records:
            if record.report is not None and record.report.holds_value:
                yield record.rank, record.report.body

    def _send_values(self, machine: Machine) -> None:
        for rank, body in self._values(machine):
            try:
                self._tell("value", {"rank": rank}, body)
            except ValueError as e:
                self._lose_value(rank, f"it is too large: {e}")
        for record in machine.records:
            lost = record.report is None and record.refused
            if lost and isinstance(self.spec.program, Function):
                self._lose_value(record.rank, f"it is lost: {record.refused}")

    def _lose_value(self, rank: int, why: str) -> None:
        """Turn a rank whose value cannot be sent into a failure."""
        assert self._end is not None
        self._state = "FAILED"
        finished = self._end.finished
        lost = [_unsent(each, why) for each in finished if each.rank == rank]
        others = tuple(each for each in finished if each.rank != rank)
        self._end = self._end.__replace__(failures=(*self._end.failures, *lost), finished=others)

    def close(self) -> None:
        """Give everything back; whatever is left of the ranks is killed with their agent."""
        if self._machine is not None:
            self._machine.close()


def _describe_ranks(machine: Machine) -> Fields:
    """Describe the ranks as they are now, by the clock of this machine."""
    return {"now": time.time(), "kill_at": kill_at(machine), "ranks": ranks_of(machine)}


def _unsent(end: RankEnd, why: str) -> RankEnd:
    return end.__replace__(outcome=Outcome.UNPICKLABLE, type_name="value", message=why)


def _node(said: Fields, own: OwnNode | None) -> Node:
    """Read the place of this node. Raises TypeError or ValueError if it is malformed."""
    if own is None:
        return Node(**said)
    numbers = ("rank", "count", "port", "attempt", "restarts", "regrouped", "number", "world")
    given = {name: int(said[name]) for name in numbers}
    address, port = own.meets
    return Node(
        **{**given, "port": port or given["port"]},
        address=address or str(said["address"]),
        run_id=own.spec.node.run_id,
        job=str(said["job"]),
        role=own.spec.node.role,
    )


def moved(spec: Spec, original: str, copy: str, import_path: str = "") -> Spec:
    """Give the spec for a node that has `copy` in place of the driver's directory `original`.

    The engine has copied it, as Ray does with `working_dir`, and ranks run in the copy. The
    original need not exist here. import_path: directories that the engine has added for imports,
    separated as in PYTHONPATH.
    """
    program = spec.program
    if isinstance(program, Function) and isinstance(program.call, Packed):
        described = program.call.description
        added = [copy, *filter(None, import_path.split(os.pathsep))]
        # In the copy first, as Ray's own workers.
        path = list(
            dict.fromkeys([*added, *(place(p, original, copy) for p in described["sys_path"])])
        )
        call: Any = program.call.__replace__(description={**described, "sys_path": path})
        program = Function(call)
    return spec.__replace__(program=program, cwd=place(spec.cwd, original, copy))


def place(path: str, original: str, copy: str) -> str:
    """Translate a path of the driver's: into the copy, or unchanged if it is outside."""
    if path == original:
        return copy
    inside = path.startswith(original.rstrip("/") + "/")
    return os.path.join(copy, os.path.relpath(path, original)) if inside else path
