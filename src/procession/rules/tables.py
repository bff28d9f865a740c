"""The lifecycle as tables: every state, every event, and what follows from each.

Two kinds of machine: a `Worker` per rank, and the group, whose state is a `Stage`. `COUPLINGS` says
which states of all ranks move the group. What people see of a stage is its `Phase`.

An entry of `GROUP_TABLE` is the next stage and what is done on the way, in order: a `Do`, or a
deadline that begins. None as the next stage is the end, which `Lifecycle.verdict` names from how
the ranks ended. `PATIENT` and `SINGLE` are what such groups do otherwise.

Not in the tables, because it cannot happen, and is a defect of the caller if it does:

- anything that happens to a rank that is gone, and so to any rank from SWEEP_ASKED on;
- leftovers that are gone while ranks are there;
- that a rank's process exists twice, or that it is ready before it exists.

Not in the tables either, because it may come at any time and means nothing then: a deadline whose
stage has passed, and a wish for more than a plain stop where it makes no difference.
"""

from __future__ import annotations

import enum

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias


class _Names(enum.Enum):
    """The members of a class below, each there once."""

    __hash__ = object.__hash__  # that of `Enum` is Python code, and each event looks several up


class Worker(_Names):
    """Where a rank's process is in its life."""

    PENDING = "asked for, no process yet"
    STARTING = "a process that has not reached its program"
    RUNNING = "in its program"
    STOPPING = "the stop signal was sent"
    KILLING = "SIGKILL was sent"
    EXITED = "gone"
    LOST = "still there long after SIGKILL"


class WorkerEvent(_Names):
    """What can happen to a rank's process."""

    SPAWNED = "the process exists"
    SPAWN_FAILED = "the process or its program could not be started"
    CANCELLED = "it was never started, and will not be"
    READY = "its program was reached"
    REPORTED = "it reported its outcome"
    STOP_SENT = "the stop signal was sent"
    KILL_SENT = "SIGKILL was sent"
    EXITED = "it is gone"
    START_DEADLINE = "it took too long to reach its program"
    REAP_DEADLINE = "it took too long to go after SIGKILL"
    HUNG = "it gave no sign of life for too long"


_W, _E = Worker, WorkerEvent
WORKER_TABLE: dict[tuple[Worker, WorkerEvent], Worker] = {
    (_W.PENDING, _E.SPAWNED): _W.STARTING,
    (_W.PENDING, _E.SPAWN_FAILED): _W.EXITED,
    (_W.PENDING, _E.CANCELLED): _W.EXITED,
    (_W.PENDING, _E.REPORTED): _W.PENDING,  # a report may overtake the news of its process
    (_W.PENDING, _E.START_DEADLINE): _W.PENDING,
    (_W.PENDING, _E.REAP_DEADLINE): _W.LOST,
    (_W.STARTING, _E.READY): _W.RUNNING,
    (_W.STARTING, _E.REPORTED): _W.STARTING,
    (_W.STARTING, _E.SPAWN_FAILED): _W.EXITED,
    (_W.STARTING, _E.STOP_SENT): _W.STOPPING,
    (_W.STARTING, _E.KILL_SENT): _W.KILLING,
    (_W.STARTING, _E.EXITED): _W.EXITED,
    (_W.STARTING, _E.START_DEADLINE): _W.STARTING,
    (_W.STARTING, _E.REAP_DEADLINE): _W.LOST,
    (_W.RUNNING, _E.REPORTED): _W.RUNNING,
    (_W.RUNNING, _E.STOP_SENT): _W.STOPPING,
    (_W.RUNNING, _E.KILL_SENT): _W.KILLING,
    (_W.RUNNING, _E.EXITED): _W.EXITED,
    (_W.RUNNING, _E.REAP_DEADLINE): _W.LOST,
    (_W.RUNNING, _E.HUNG): _W.RUNNING,
    (_W.STOPPING, _E.READY): _W.STOPPING,
    (_W.STOPPING, _E.REPORTED): _W.STOPPING,
    (_W.STOPPING, _E.STOP_SENT): _W.STOPPING,  # once more, in a hurry
    (_W.STOPPING, _E.SPAWN_FAILED): _W.EXITED,
    (_W.STOPPING, _E.KILL_SENT): _W.KILLING,
    (_W.STOPPING, _E.EXITED): _W.EXITED,
    (_W.STOPPING, _E.REAP_DEADLINE): _W.LOST,
    (_W.KILLING, _E.READY): _W.KILLING,
    (_W.KILLING, _E.REPORTED): _W.KILLING,
    (_W.KILLING, _E.STOP_SENT): _W.KILLING,  # what a lost agent said last may come late
    (_W.KILLING, _E.SPAWN_FAILED): _W.EXITED,
    (_W.KILLING, _E.KILL_SENT): _W.KILLING,
    (_W.KILLING, _E.EXITED): _W.EXITED,
    (_W.KILLING, _E.REAP_DEADLINE): _W.LOST,
}

GONE = (Worker.EXITED, Worker.LOST)


class Ended(_Names):
    """How a rank's life ended, seen from its group."""

    FINISHED = "finished"
    FAILED = "failed by itself"
    STOPPED = "ended by the group"
    NEVER_STARTED = "never started"
    LOST = "lost"


class Phase(enum.Enum):
    """Where a group is in its life."""

    STARTING = "ranks are being started"
    RUNNING = "every rank reached its program"
    STOPPING = "ranks are being ended"
    SWEEPING = "the ranks are gone; what they left behind is being ended"
    BACKOFF = "all are gone; another attempt is to begin"
    SUCCEEDED = "every rank finished"
    FAILED = "a rank failed"
    STOPPED = "ended on request"

    @property
    def final(self) -> bool:
        """Whether the group has ended."""
        return self in (Phase.SUCCEEDED, Phase.FAILED, Phase.STOPPED)


class Stage(_Names):
    """The state of a group: its phase, and for a phase that is ended in steps, the step."""

    STARTING = Phase.STARTING, "ranks are being started"
    RUNNING = Phase.RUNNING, "every rank reached its program"
    PATIENCE = Phase.STOPPING, "a rank failed; the others may end by themselves"
    NOTICE = Phase.STOPPING, "ranks know of the stop and may end by themselves"
    ASKED = Phase.STOPPING, "ranks get the stop signal"
    KILLED = Phase.STOPPING, "ranks get SIGKILL"
    SWEEP_ASKED = Phase.SWEEPING, "the ranks are gone; leftovers get the stop signal"
    SWEEP_KILLED = Phase.SWEEPING, "the ranks are gone; leftovers get SIGKILL"
    SUCCEEDED = Phase.SUCCEEDED, "every rank finished"
    FAILED = Phase.FAILED, "a rank failed"
    STOPPED = Phase.STOPPED, "ended on request"

    def __init__(self, phase: Phase, meaning: str) -> None:
        self.phase = phase
        self.meaning = meaning


class GroupEvent(_Names):
    """What can happen to a group, besides deadlines."""

    SPAWNED = "a rank's process exists"
    FAILED = "a rank failed, and is still there"
    HUNG = "a rank gave no sign of life, and is still there"
    LOST = "a rank that failed is gone"
    REVIVED = "a rank that failed is gone, and is to start again by itself"
    NO_START = "a rank could not be started"
    ALL_READY = "every rank reached its program"
    ALL_GONE = "no rank is left"
    STOP_WANTED = "a stop was requested"
    NOTICE_WANTED = "a stop was requested, and ranks are to get notice of it first"
    HURRY_WANTED = "a stop was requested with another signal, or less time"
    KILL_WANTED = "an end at once was requested"
    SWEPT = "nothing is left"


class DeadlineKind(_Names):
    """What a deadline is for."""

    START = "every rank has reached its program"
    PATIENCE = "ranks of a failed group have ended by themselves"
    NOTICE = "ranks that know of the stop have ended by themselves"
    LINGER = "ranks that reported their outcome are gone"
    GRACE = "ranks have obeyed the stop signal"
    REAP = "killed processes are gone"
    START_IT = "a single rank that starts again has reached its program"
    LINGER_IT = "a single rank that reported its failure is gone"
    REAP_IT = "a single rank is gone after SIGKILL"


class Do(_Names):
    """What is done on the way from one stage to the next. "It" is the rank of the event."""

    FAIL_LATE = "take the ranks that have not reached their program for failed"
    FAIL_IT = "take it for failed"
    REVIVE = "start it again"
    CANCEL = "do not start ranks that have no process yet"
    ASK = "send the stop signal, later to ranks that have reported their outcome"
    ASK_IT = "send it the stop signal, later if it has reported its outcome"
    ASK_AGAIN = "send the stop signal once more to the ranks that got it"
    ASK_REST = "send the stop signal to the ranks that have not got it"
    KILL = "send SIGKILL to all ranks"
    KILL_IT = "send it SIGKILL"
    GIVE_UP = "take the ranks that are still there for lost"
    GIVE_UP_IT = "take it for lost, by itself"
    SWEEP = "send leftovers the stop signal"
    SWEEP_KILL = "send leftovers SIGKILL"


_S, _G, _D = Stage, GroupEvent, DeadlineKind
Entry: TypeAlias = "tuple[Stage | None, *tuple[Do | DeadlineKind, ...]]"
Table: TypeAlias = "dict[tuple[Stage, GroupEvent | DeadlineKind], Entry]"

FAILURES = (_G.FAILED, _G.HUNG, _G.LOST)
WISHES = (_G.KILL_WANTED, _G.NOTICE_WANTED, _G.HURRY_WANTED, _G.STOP_WANTED)  # first come first
OF_A_RANK = (_D.START_IT, _D.LINGER_IT, _D.REAP_IT)
WORKING = (_S.STARTING, _S.RUNNING)
WAITING = (_S.PATIENCE, _S.NOTICE)
ENDING = (_S.ASKED, _S.KILLED)
SWEEPING = (_S.SWEEP_ASKED, _S.SWEEP_KILLED)

_STOP: Entry = (_S.ASKED, Do.CANCEL, Do.ASK, _D.GRACE)

GROUP_TABLE: Table = {
    (_S.STARTING, _G.SPAWNED): (_S.STARTING,),
    (_S.STARTING, _G.NO_START): _STOP,
    (_S.STARTING, _G.ALL_READY): (_S.RUNNING,),
    (_S.STARTING, _D.START): (_S.STARTING, Do.FAIL_LATE),
    **{(s, e): _STOP for s in WORKING for e in (*FAILURES, _G.STOP_WANTED)},
    (_S.RUNNING, _G.NOTICE_WANTED): (_S.NOTICE, _D.NOTICE),
    (_S.RUNNING, _G.ALL_GONE): (_S.SWEEP_ASKED, Do.SWEEP, _D.GRACE),
    # Ranks may end by themselves. Nobody works in half a group.
    **{(s, e): (s,) for s in WAITING for e in FAILURES},
    (_S.PATIENCE, _G.SPAWNED): (_S.PATIENCE,),
    (_S.PATIENCE, _G.NO_START): _STOP,
    (_S.PATIENCE, _D.START): (_S.PATIENCE, Do.FAIL_LATE),
    **{(s, _G.ALL_GONE): (_S.SWEEP_ASKED, Do.SWEEP, _D.GRACE) for s in WAITING},
    (_S.PATIENCE, _D.PATIENCE): _STOP,
    (_S.PATIENCE, _G.STOP_WANTED): _STOP,
    (_S.NOTICE, _D.NOTICE): _STOP,
    (_S.NOTICE, _G.HURRY_WANTED): _STOP,
    (_S.NOTICE, _G.STOP_WANTED): (_S.NOTICE,),
    # Ranks are being ended.
    **{
        (s, _G.KILL_WANTED): (_S.KILLED, Do.CANCEL, _D.GRACE, Do.KILL, _D.REAP)
        for s in (*WORKING, *WAITING)
    },
    **{(s, e): (s,) for s in ENDING for e in (*FAILURES, _G.NO_START, _G.STOP_WANTED)},
    (_S.ASKED, _G.SPAWNED): (_S.ASKED, Do.ASK_IT),
    (_S.ASKED, _D.LINGER): (_S.ASKED, Do.ASK_REST),
    (_S.ASKED, _G.HURRY_WANTED): (_S.ASKED, Do.ASK_AGAIN, _D.GRACE),
    (_S.ASKED, _G.KILL_WANTED): (_S.KILLED, Do.KILL, _D.REAP),
    (_S.ASKED, _D.GRACE): (_S.KILLED, Do.KILL, _D.REAP),
    (_S.ASKED, _G.ALL_GONE): (_S.SWEEP_ASKED, Do.SWEEP),
    (_S.KILLED, _G.SPAWNED): (_S.KILLED, Do.KILL_IT),
    (_S.KILLED, _G.ALL_GONE): (_S.SWEEP_KILLED, Do.SWEEP_KILL),
    (_S.KILLED, _D.REAP): (None, Do.GIVE_UP),
    # What ranks left behind is being ended.
    **{(s, _G.STOP_WANTED): (s,) for s in SWEEPING},
    **{(s, _G.SWEPT): (None,) for s in SWEEPING},
    (_S.SWEEP_ASKED, _G.HURRY_WANTED): (_S.SWEEP_ASKED, Do.SWEEP, _D.GRACE),
    (_S.SWEEP_ASKED, _G.KILL_WANTED): (_S.SWEEP_KILLED, Do.SWEEP_KILL, _D.REAP),
    (_S.SWEEP_ASKED, _D.GRACE): (_S.SWEEP_KILLED, Do.SWEEP_KILL, _D.REAP),
    (_S.SWEEP_KILLED, _D.REAP): (None, Do.GIVE_UP),
}

# A group that leaves its other ranks alone when one has failed, until PATIENCE.
PATIENT: Table = {(s, e): (_S.PATIENCE, _D.PATIENCE) for s in WORKING for e in FAILURES}

# A group of ranks of which each may fail, and start again, by itself.
SINGLE: Table = {
    **{(s, _G.FAILED): (s, _D.LINGER_IT) for s in WORKING},
    **{(s, e): (s, Do.KILL_IT, _D.REAP_IT) for s in WORKING for e in (_G.HUNG, _D.LINGER_IT)},
    **{(s, _G.REVIVED): (s, Do.REVIVE, _D.START_IT) for s in WORKING},
    **{(s, _G.REVIVED): (s,) for s in (*WAITING, *ENDING)},  # too late for that
    **{(s, _D.REAP_IT): (s, Do.GIVE_UP_IT) for s in WORKING},
    # A rank may be starting again while the others are in their program.
    **{(s, _G.SPAWNED): (s,) for s in (_S.RUNNING, _S.NOTICE)},
    **{(s, _G.NO_START): _STOP for s in (_S.RUNNING, _S.NOTICE)},
    **{(s, _D.START_IT): (s, Do.FAIL_IT) for s in (*WORKING, *WAITING)},
}

# By whether a group is patient, and whether its ranks are single.
TABLES: dict[tuple[bool, bool], Table] = {
    (patient, single): {**GROUP_TABLE, **(PATIENT if patient else {}), **(SINGLE if single else {})}
    for patient in (False, True)
    for single in (False, True)
}

# When all ranks are in one of these states, this happens to the group.
COUPLINGS: dict[Stage, tuple[tuple[Worker, ...], GroupEvent]] = {
    _S.STARTING: ((_W.RUNNING, *GONE), _G.ALL_READY),
    **dict.fromkeys((_S.RUNNING, *WAITING, *ENDING), (GONE, _G.ALL_GONE)),
}
