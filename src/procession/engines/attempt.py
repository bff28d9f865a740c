"""The ranks of one node in one attempt: a node process runs them, and reports about them."""

from __future__ import annotations

import itertools
import os
import pickle
import threading
import time
from collections.abc import Callable
from typing import Any

from procession.agent.beforestop import STACK_SECONDS
from procession.driver.deciding import Done
from procession.driver.hangs import HANG_SECONDS
from procession.engines.interfaces import with_interface
from procession.engines.ownnode import OwnNode
from procession.engines.plain import plain_group, plain_rank
from procession.engines.workingcopy import moved
from procession.explain.ends import not_started
from procession.explain.stacks import text
from procession.group.group import Group
from procession.output.wiring import Output
from procession.prepare.resources import planned_output
from procession.rules.tables import Phase
from procession.system.eventloop import EventLoop
from procession.values.environment import Node
from procession.values.errors import GroupEnd, GroupFailed, Outcome
from procession.values.events import Event
from procession.values.spec import Spec

Fields = dict[str, Any]
Send = Callable[..., None]  # kind of message, fields, blob

WORKING = (Phase.STARTING, Phase.RUNNING)
OF_NODE = ("attempt", "state", "kill_at", "ranks")  # what a look at the job needs of this one


class Attempt:
    """Runs a group in a thread of its own. All methods are for the thread of the loop.

    The group has no socket of its own: other terminals see one run, the job.

    send: sends a message, in the thread of `loop`. done: called there when the group has ended.
    copied: the driver's directory, if the node process runs in a copy of it, else "". own: what
    ranks run where the node process is a part of this node's launcher.
    """

    def __init__(
        self,
        loop: EventLoop,
        send: Send,
        fields: Fields,
        blob: bytes | bytearray,
        done: Callable[[Attempt], None],
        copied: str = "",
        own: OwnNode | None = None,
    ) -> None:
        # What an engine has started is sent what to run, by a driver that has the key.
        spec: Spec = pickle.loads(blob) if own is None else own.spec
        self.number = int(fields["attempt"])
        spec = with_interface(spec, str(fields["interface"]))
        self.spec = spec.__replace__(node=_node(fields["node"], own))
        if copied:
            self.spec = moved(self.spec, copied, os.getcwd(), os.environ.get("PYTHONPATH", ""))
        self._place = str(fields["place"])
        self._devices, self._gpus = str(fields["devices"]), int(fields["gpus"])
        if own is not None:
            self._place = own.place(self._place)
            self._devices, self._gpus = own.devices, 0
        self._own = own
        self._loop = loop
        self._send = send
        self._done = done
        self._group: Group | None = None  # None while it is not made yet
        self._made = threading.Event()
        self._questions = itertools.count(1)
        self._asked: dict[int, Done] = {}  # about restarts of single ranks
        self._failed = False
        self._end: GroupEnd | None = None
        self._state = "FAILED"
        self._fault = ""
        self._stacks: list[dict[str, Any]] = []

    def start(self) -> None:
        """Make the group, and run it; returns at once."""
        threading.Thread(target=self._run, name="procession", daemon=True).start()

    def _run(self) -> None:
        try:
            self.spec = self._with_devices()
            self.spec, output = self._planned()
            group = self._group = Group(self.spec, output, control=False)
            group.hear(self._on_event)
            group.supervisor.recovery.decided_by(self._ask_for_restart)
            if self.spec.hang.silence is not None and self.spec.node.count > 1:
                group.share_activity(time.monotonic_ns())
            group.drain_patiently()
            self._made.set()
            group.drive()
            self._conclude(group)
        except GroupFailed as e:
            self._end = e.end
        except Exception as e:
            self._fault = f"{type(e).__name__}: {e}"
        finally:
            self._made.set()
            self._loop.request(lambda: self._done(self))

    def _planned(self) -> tuple[Spec, Output]:
        if self._own is not None:
            return self._own.plan(self.spec, self._place)
        return self.spec, planned_output(self.spec, self._place)

    def _with_devices(self) -> Spec:
        """Give each rank its own of the devices that the engine gave this node."""
        if not self._devices and not self._gpus:
            return self.spec
        from procession.devices import deal, deal_shares

        if self._devices:
            return deal(self.spec, self._devices)
        return deal_shares(self.spec, self._gpus)

    def _conclude(self, group: Group) -> None:
        self._end, self._state = group.end, group.state.name
        self._stacks = group.stacks_of_failure() or self._stacks
        if self._end is None:
            self._fault = "its driver failed"
            group.result()

    def _tell(self, kind: str, fields: Fields) -> None:
        """Send a message about this attempt; from any thread."""
        self._loop.request(lambda: self._send(kind, {"attempt": self.number, **fields}))

    # -- while it runs

    def _on_event(self, event: Event) -> None:
        """Report at once what concerns other nodes; in the supervisor's thread."""
        if event.rank is not None or self._group is None:
            return
        if event.kind == "running":
            self._tell("ready", {})
            return  # a single rank that has failed meanwhile may start again
        failure = self._group.failure
        if failure is not None and not self._failed:
            self._failed = True
            self._tell("failed", {"end": plain_rank(failure)})

    def _ask_for_restart(
        self, end: GroupEnd, uptime: float | None, rank: int | None, done: Done
    ) -> None:
        """Ask the driver whether a single rank starts again; in the supervisor's thread."""
        assert rank is not None  # the group of a node has no other restarts
        number = next(self._questions)
        self._asked[number] = done
        failed = plain_rank(end.failures[0])
        self._tell("restart", {"id": number, "life": end.attempt, "uptime": uptime, "end": failed})

    def take_decision(self, fields: Fields) -> None:
        """Take the driver's answer to such a question."""
        if int(fields["attempt"]) != self.number:
            return
        done = self._asked.pop(int(fields["id"]), None)
        if done is not None:
            from procession.rules.restarting import Decision

            again, delay = bool(fields["again"]), float(fields["delay"])
            done(Decision(again, delay, head=str(fields["head"]), count=str(fields["count"])))

    def answer(self, fields: Fields) -> None:
        """Answer a question about the state of the ranks, or their stacks; returns at once."""
        number, about = fields["id"], fields["about"]

        def find() -> Any:
            if self._group is None:
                return None
            if about == "stacks":
                return self._group.stacks(float(fields["seconds"]), native=bool(fields["native"]))
            look = self._group.look()
            return {"now": time.time(), **{name: look[name] for name in OF_NODE}}

        def work() -> None:
            try:
                found = find()
            except Exception:  # it is ending right now: there is nothing to report
                found = None
            self._loop.request(lambda: self._send("answer", {"id": number, "value": found}))

        threading.Thread(target=work, name="procession-answer", daemon=True).start()

    def share_activity(self, now: int, fields: Fields) -> int:
        """Learn from a heartbeat when other nodes' ranks wrote last; gives when those here did."""
        if self._group is None or "quiet" not in fields:
            return 0
        return self._group.share_activity(now - int(fields["quiet"]))

    def signal(self, fields: Fields) -> None:
        """Send every rank a signal, or the one that is named."""
        number, only_caught = int(fields["number"]), bool(fields.get("only_caught"))
        if self._group is None:
            return
        if "rank" in fields:
            self._group.send_signal(int(fields["rank"]), number, only_caught=only_caught)
        else:
            self._group.signal_all(number, only_caught=only_caught)

    # -- ending it

    def stop(self, most: float | None) -> None:
        """Stop the ranks; returns at once. most: seconds that they have; None: all of theirs."""
        if most is None:
            self._when_made(lambda group: group.stop(wait=False))
            return
        grace = min(most, self.spec.stop.grace)
        self._when_made(lambda group: group.stop(wait=False, grace=grace, notice=0.0))

    def kill(self) -> None:
        """Kill the ranks; returns at once."""
        self._when_made(lambda group: group.kill(wait=False))

    def obey(self, fields: Fields) -> None:
        """Stop as the driver says: kill, signal, grace, notice; failed: other ranks failed."""
        if int(fields["attempt"]) != self.number:
            return
        how = {name: fields[name] for name in ("signal", "grace", "notice") if name in fields}

        def stop(group: Group) -> None:
            if fields.get("kill"):
                group.kill(wait=False)
                return
            if fields.get("failed"):
                if group.state in WORKING and self.spec.hang.stacks:
                    hung = bool(fields.get("hung"))
                    self._stacks = group.stacks(HANG_SECONDS if hung else STACK_SECONDS)
                if group.state not in WORKING:
                    return  # it has failed as well, and takes stacks by itself
            group.stop(wait=False, **how)

        self._when_made(stop)

    def _when_made(self, call: Callable[[Group], None]) -> None:
        """Have `call` called in a thread of its own, which waits for the group."""

        def work() -> None:
            self._made.wait()
            if self._group is not None:
                call(self._group)

        threading.Thread(target=work, name="procession-stop", daemon=True).start()

    # -- when it has ended

    def tell_end(self) -> None:
        """Report how the attempt ended on this node: values first, then everything else."""
        errors: dict[str, Any] = {}
        if self._group is not None:
            reports = self._group.error_reports()
            if self._own is not None:
                self._own.values, self._own.errors = self._group.values_sent(), reports
                self._own.first = self.spec.node.first(self.spec.nproc)
            else:
                if self._state == "SUCCEEDED":
                    self._send_values(self._group)
                errors = {str(rank): sent for rank, sent in reports.items()}
        first = self.spec.node.first(self.spec.nproc)
        stacks = text.together(text.from_dict(each, first) for each in self._stacks)
        self._send(
            "ended",
            {
                "attempt": self.number,
                "state": self._state,
                "end": plain_group(self._end or self._not_started()),
                "stacks": [{"said": s.said, "ranks": s.ranks, "within": s.within} for s in stacks],
                "told": errors,
            },
        )

    def _send_values(self, group: Group) -> None:
        for rank, body in group.values_sent().items():
            try:
                self._send("value", {"attempt": self.number, "rank": rank}, body)
            except ValueError as e:
                self._too_large(rank, str(e))

    def _too_large(self, rank: int, why: str) -> None:
        """Turn a rank whose value cannot be sent into a failure."""
        assert self._end is not None
        self._state = "FAILED"
        (end,) = (each for each in self._end.finished if each.rank == rank)
        failed = end.__replace__(
            outcome=Outcome.UNPICKLABLE, type_name="value", message=f"it is too large: {why}"
        )
        others = tuple(each for each in self._end.finished if each.rank != rank)
        failures = (*self._end.failures, failed)
        self._end = self._end.__replace__(failures=failures, finished=others)

    def _not_started(self) -> GroupEnd:
        cause = not_started(f"could not be started: {self._fault.removeprefix('SpecError: ')}")
        return GroupEnd(self.spec.name, self.spec.nproc, failures=(cause,))


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
