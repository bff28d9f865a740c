"""The messages of node processes, and what follows from them for the life of the job."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from procession.driver.jobend import NodePart, all_of_job, ended_unasked, of_job
from procession.driver.jobstate import JobState, NodeRecord
from procession.engines.plain import group_end, rank_end
from procession.engines.tunnel import possible
from procession.engines.wire import Message
from procession.explain.ends import facts_of_failure
from procession.machine.machine import KINDS
from procession.prepare.results import permitted
from procession.rules.jobwords import (
    Event,
    Happened,
    JobPhase,
    JobStopWanted,
    Leaves,
    Met,
    Slot,
    SlotEvent,
)
from procession.rules.restarting import Decision
from procession.values.errors import Exit, GroupEnd, signal_name

NOT_ENCRYPTED = "authenticated, not encrypted"
LEAVING = (signal.SIGTERM, signal.SIGINT)  # what takes one node out of an elastic job
EVENTS = {*KINDS.values(), "lost", "restarting"}  # of ranks
WORKING = (JobPhase.STARTING, JobPhase.RUNNING)


class NodeEvents:
    """Takes what node processes send, as a `NodeLinks` tells it. For the thread of the loop.

    handle: takes events of the job's life. Where nodes come by themselves, nothing that they send
    is unpickled.
    """

    def __init__(self, state: JobState, handle: Callable[[Event], None]) -> None:
        self._state = state
        self._life = state.life
        self._handle = handle

    # -- coming and going

    def joined(self, node: NodeRecord) -> None:
        """Take note that a node process is there."""
        state, encryption = self._state, node.link.encryption
        state.machines[node.slot] = node.host
        if node.heir is not None:
            inherits = state.reception.inherits if state.reception is not None else None
            if inherits is not None and node.heir.name in (h.name for h in inherits.world):
                state.lost_at = max(state.lost_at, time.monotonic() + node.heir.wait)
                self._life.take_vote(node.slot)
        if node.order:
            self._life.keys[node.slot] = node.order
        said = f"encrypted ({encryption})" if encryption else NOT_ENCRYPTED
        if said not in state.encryption:
            state.encryption = (*state.encryption, said)
            if not encryption and possible():
                state.announce(
                    f"the link to {node.host} is not encrypted: its Python {node.python} cannot"
                )
        state.note("joined", node.slot, f"the link is {said}")
        self._handle(Happened(SlotEvent.JOINED, node.slot))
        if self._life.phase in WORKING and self._life.node_of(node.slot) is None:
            self.is_spare(node)

    def is_spare(self, node: NodeRecord) -> None:
        """Tell a node that comes by itself, and is not needed, that it waits."""
        if self._state.reception is not None:
            work = self._state.work
            said = f"{work.spec.name} has its {work.nodes} machines: this one waits for a place"
            node.link.send("say", {"text": said})

    def refused(self, node: NodeRecord, why: str) -> None:
        """Take note that a node process came and was sent away.

        An engine has started it for its slot, which has none now. Where nodes come by themselves,
        the slot is free for another one, if one may come.
        """
        state = self._state
        state.said.append(why)
        state.announce(why)
        another = state.reception is not None and not state.reception.sealed
        if not another and self._life.slots[node.slot] is Slot.AWAITED:
            self._handle(Happened(SlotEvent.GONE, node.slot))

    def lost(self, node: NodeRecord, why: str) -> None:
        """Take note that a node process is gone, or unreachable."""
        state, slot = self._state, node.slot
        state.drop_questions(slot)
        node_rank = self._life.node_of(slot)
        if node_rank is not None and self._life.slots[slot] is Slot.BUSY:
            part = state.parts[node_rank]
            heard = int(node.link.heard_at * 1e9)
            part.lost, part.lost_at = why, 0 if self._life.stop_wanted else heard
            state.lost_at = time.monotonic()
            state.note("node_lost", slot, why)
            state.announce(f"node {node_rank} ({part.host}) is lost: {why}; all ranks are ended")
        self._handle(Happened(SlotEvent.GONE, slot))

    # -- messages

    def heard(self, node: NodeRecord, message: Message) -> None:
        """Take a message. Raises ValueError, KeyError or TypeError for one that is malformed."""
        fields, slot, state = message.fields, node.slot, self._state
        if message.kind == "pulse":
            if fields.get("active"):
                state.active_at = max(state.active_at, node.clocks.ours(int(fields["active"])))
        elif message.kind == "log":
            state.follower.show(int(fields["stream"]), bytes(message.blob), node)
        elif message.kind == "leaving":
            node.link.lose(_why_left(fields))
        elif message.kind == "answer":
            state.take_answer(slot, fields)
        elif message.kind == "signal":
            self._signalled(node, int(fields["number"]), bool(fields.get("again")))
        elif fields.get("attempt") == self._life.attempt:
            node_rank = self._life.node_of(slot)
            if message.kind == "met" and node_rank == 0:
                state.address = str(fields["address"]), int(fields["port"])
                self._handle(Met(self._life.attempt))
            elif node_rank is not None and self._life.slots[slot] is Slot.BUSY:
                self._heard_of_ranks(node, state.parts[node_rank], message)

    def _heard_of_ranks(self, node: NodeRecord, part: NodePart, message: Message) -> None:
        fields, slot, state = message.fields, node.slot, self._state
        if message.kind == "ready":
            self._handle(Happened(SlotEvent.READY, slot))
        elif message.kind == "failed":
            part.failed = of_job(part, rank_end(fields["end"]))
            state.note("rank_failed", slot, facts=facts_of_failure(part.failed))
            self._handle(Happened(SlotEvent.FAILED, slot))
        elif message.kind == "event":
            self._note(node, part, fields)
        elif message.kind == "asked":
            self._decide_for_rank(node, part, fields)
        elif message.kind == "debugs":
            send = partial(node.link.send, "debug", {"rank": fields["rank"]})
            state.debugged.begin_talk(part.first + int(fields["rank"]), send, state.undebugged)
        elif message.kind == "debug":
            state.debugged.take_data(part.first + int(fields["rank"]), bytes(message.blob))
        elif message.kind == "value":
            if state.reception is None and permitted(state.work.spec.program)["pickles"]:
                part.values[int(fields["rank"])] = message.blob
        elif message.kind == "ended":
            part.end, part.failed = all_of_job(part, group_end(fields["end"])), None
            part.state = str(fields["state"])
            part.stacks = fields["stacks"]
            part.take_look(fields["looked"])
            part.errors = fields["told"] if state.reception is None else {}
            if not (self._life.stop_wanted or self._life.phase is JobPhase.STOPPING):
                part.end = ended_unasked(part.end)
            ok = part.state in ("SUCCEEDED", "STOPPED") and not part.end.failures
            self._handle(Happened(SlotEvent.ENDED, slot, ok=ok))

    def _note(self, node: NodeRecord, part: NodePart, fields: Mapping[str, Any]) -> None:
        """Note an event of a rank. Raises ValueError for one that cannot be."""
        attempt = self._life.attempt + int(fields["life"])
        at, pid = node.clocks.ours(int(fields["at"])), fields["pid"]
        kind, rank, facts = str(fields["event"]), int(fields["rank"]), dict(fields["facts"])
        if kind not in EVENTS or rank not in range(part.nproc):
            raise ValueError("no event of a rank")
        if kind == "spawned":
            part.pids[rank] = int(pid)
            part.exits.pop(rank, None)
        elif kind == "exited":
            code, number = facts.get("exit_code"), facts.get("signal")
            part.exits[rank] = Exit(code, number, bool(facts.get("core")))
        detail = str(fields["detail"])
        self._state.journal.note(kind, part.first + rank, attempt, at, pid, detail, facts)

    def _decide_for_rank(self, node: NodeRecord, part: NodePart, fields: Mapping[str, Any]) -> None:
        """Decide whether a single rank starts again, and tell its node process.

        When the ranks are being ended, their node processes wait for no answer.
        """
        state, life, attempt = self._state, self._life, self._life.attempt
        asked = {"rank": int(fields["rank"]), "life": int(fields["life"])}

        def works() -> bool:
            return life.phase in WORKING and life.attempt == attempt

        failed = of_job(part, rank_end(fields["end"]))
        whole = GroupEnd(
            state.work.spec.name, state.work.world, attempt=asked["life"], failures=(failed,)
        )

        def done(end: GroupEnd, decided: Decision) -> None:
            if not works():
                return
            if said := state.recovery.note_decision(decided, end, failed.rank):
                state.announce(said)
            answer = {"again": decided.again, "delay": decided.delay, "said": said}
            node.link.send("decided", {"attempt": attempt, **asked, **answer})

        if works():
            state.recovery.decide(lambda: whole, 0, failed.rank, done)

    def _signalled(self, node: NodeRecord, number: int, again: bool) -> None:
        state = self._state
        state.note("signalled", node.slot, facts={"signal": number})
        if node.slot in self._life.leaving:  # the others go on, whatever comes
            if again:
                node.link.send("stop", {"attempt": self._life.attempt, "kill": True})
            return
        if number in LEAVING and self._life.can_spare(node.slot):
            self._handle(Leaves(node.slot))
            return
        where = f"the {'launcher' if state.reception else 'node process'} on {node.host}"
        if state.told_signal is not None:
            state.told_signal(number, where, again)
        elif number in LEAVING and not self._life.stop_wanted:
            state.announce(f"{where} got {signal_name(number)}: the job ends")
            state.stopper = f"{signal_name(number)} to {where}"
            self._handle(JobStopWanted())


def _why_left(fields: Mapping[str, Any]) -> str:
    """Say why a node process left by itself."""
    if "crashed" in fields:
        return f"its node process failed: {fields['crashed']}"
    return (
        f"it had heard nothing from this process for {float(fields['silent']):.1f} s: either this "
        "machine was too busy, or the network was cut"
    )
