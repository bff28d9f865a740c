"""What can happen to a job over several nodes, and what is then to be done; see `joblife`."""

from __future__ import annotations

import enum

from procession.rules.tables import Phase
from procession.values.base import Value


class Slot(enum.Enum):
    """What an engine's slot holds."""

    AWAITED = "a node process was asked for"
    IDLE = "a node process that has no ranks"
    BUSY = "a node process with the ranks of a node"
    GONE = "no node process any more"


class SlotEvent(enum.Enum):
    """What can happen to a slot."""

    JOINED = "its node process is there"
    READY = "all its ranks run"
    FAILED = "a rank of it failed"
    ENDED = "no rank of it is left"
    GONE = "its node process is gone"


class JobPhase(enum.Enum):
    """Where a job is in its life."""

    GATHERING = Phase.STARTING, "node processes are awaited"
    MEETING = Phase.STARTING, "node 0 chooses where ranks meet"
    STARTING = Phase.STARTING, "ranks are being started"
    RUNNING = Phase.RUNNING, "every rank reached its program"
    STOPPING = Phase.STOPPING, "ranks are being ended"
    DECIDING = Phase.STOPPING, "all have ended; somebody says whether they start again"
    BACKOFF = Phase.BACKOFF, "another attempt is to begin"
    SUCCEEDED = Phase.SUCCEEDED, "every rank finished"
    FAILED = Phase.FAILED, "a rank failed, or a node was lost"
    STOPPED = Phase.STOPPED, "ended on request"

    def __init__(self, shown: Phase, meaning: str) -> None:
        self.shown = shown  # as people see it
        self.meaning = meaning

    @property
    def final(self) -> bool:
        """Whether the job has ended."""
        return self.shown.final


class JobEvent(enum.Enum):
    """What can happen to a job as a whole."""

    GATHER = "node processes come, or are to come"
    ENOUGH = "enough node processes are there"
    MET = "node 0 has chosen where ranks meet"
    ALL_READY = "every rank runs"
    STOP = "ranks are to end"
    FAILED = "all have ended, and a rank had failed"
    AGAIN = "another attempt follows"
    WELL = "it ends, and every rank finished"
    BADLY = "it ends, and cannot go on"
    ASKED = "it ends on request"


class JobDeadlineKind(enum.Enum):
    """What a deadline is for."""

    GATHER = "as many node processes are there as the job has nodes"
    STOP = "nodes have obeyed the stop"
    KILL = "nodes have obeyed the kill"
    BACKOFF = "the next attempt begins"
    LAST_CALL = "an elastic job begins with the nodes that are there"


_S, _E = Slot, SlotEvent
SLOT_TABLE: dict[tuple[Slot, SlotEvent], Slot] = {
    (_S.AWAITED, _E.JOINED): _S.IDLE,
    (_S.AWAITED, _E.GONE): _S.GONE,
    (_S.IDLE, _E.GONE): _S.GONE,
    (_S.BUSY, _E.READY): _S.BUSY,
    (_S.BUSY, _E.FAILED): _S.BUSY,
    (_S.BUSY, _E.ENDED): _S.IDLE,
    (_S.BUSY, _E.GONE): _S.GONE,
    (_S.GONE, _E.GONE): _S.GONE,  # the link and the engine may both tell it
}


_P, _J = JobPhase, JobEvent
JOB_TABLE: dict[tuple[JobPhase, JobEvent], JobPhase] = {
    (_P.GATHERING, _J.GATHER): _P.GATHERING,
    (_P.GATHERING, _J.ENOUGH): _P.MEETING,
    (_P.GATHERING, _J.BADLY): _P.FAILED,
    (_P.GATHERING, _J.ASKED): _P.STOPPED,
    (_P.MEETING, _J.GATHER): _P.GATHERING,  # a node process went, or another one came
    (_P.MEETING, _J.MET): _P.STARTING,
    (_P.MEETING, _J.BADLY): _P.FAILED,
    (_P.MEETING, _J.ASKED): _P.STOPPED,
    (_P.STARTING, _J.ALL_READY): _P.RUNNING,
    (_P.STARTING, _J.STOP): _P.STOPPING,
    (_P.STARTING, _J.WELL): _P.SUCCEEDED,  # the last report of a node may overtake "all ready"
    (_P.RUNNING, _J.STOP): _P.STOPPING,
    (_P.RUNNING, _J.WELL): _P.SUCCEEDED,
    (_P.STOPPING, _J.STOP): _P.STOPPING,
    (_P.STOPPING, _J.FAILED): _P.DECIDING,
    (_P.STOPPING, _J.AGAIN): _P.BACKOFF,  # a node came or went: nobody is asked
    (_P.STOPPING, _J.WELL): _P.SUCCEEDED,
    (_P.STOPPING, _J.BADLY): _P.FAILED,
    (_P.STOPPING, _J.ASKED): _P.STOPPED,
    (_P.DECIDING, _J.AGAIN): _P.BACKOFF,
    (_P.DECIDING, _J.BADLY): _P.FAILED,
    (_P.DECIDING, _J.ASKED): _P.STOPPED,
    (_P.BACKOFF, _J.GATHER): _P.GATHERING,
    (_P.BACKOFF, _J.FAILED): _P.DECIDING,  # of the nodes that were to go on, too many are lost
    (_P.BACKOFF, _J.BADLY): _P.FAILED,
    (_P.BACKOFF, _J.ASKED): _P.STOPPED,
}


# -- events: what the caller reports


class Happened(Value):
    """Something happened to a slot. ok: of its end, whether all its ranks finished."""

    kind: SlotEvent
    slot: int
    ok: bool = True


class Met(Value):
    """Node 0 of this attempt has chosen where ranks meet."""

    attempt: int


class Leaves(Value):
    """The node process of a slot is to leave an elastic job; others go on if they are enough."""

    slot: int


class JobStopWanted(Value):
    """Somebody wants the job to end. kill: at once."""

    kill: bool = False


class Decided(Value):
    """Whether a failed attempt is followed by another one."""

    attempt: int
    again: bool


class JobDeadline(Value):
    """A deadline of an attempt has passed."""

    kind: JobDeadlineKind
    attempt: int


Event = Happened | Met | Leaves | JobStopWanted | Decided | JobDeadline


# -- actions: what the caller must do


class Meet(Value):
    """Have the node process in this slot choose where ranks meet."""

    slot: int


class Launch(Value):
    """Have the ranks of an attempt started; slots: by node rank."""

    attempt: int
    slots: tuple[int, ...]


class JobStop(Value):
    """Have the ranks in these slots ended. kill: at once. failed: because others failed."""

    slots: tuple[int, ...]
    kill: bool = False
    failed: bool = False


class Replace(Value):
    """Have a new node process started for a slot; tell `GONE` if there is none."""

    slot: int


class Drop(Value):
    """Give these slots up: they do not obey. Tell `GONE` of each."""

    slots: tuple[int, ...]


class Dismiss(Value):
    """Let the node processes of these slots go: they leave, and have no ranks any more."""

    slots: tuple[int, ...]


class Decide(Value):
    """Say whether another attempt follows the one that has failed."""


class JobArm(Value):
    """Tell this deadline when its time has passed; it replaces one of the same kind."""

    deadline: JobDeadline


Action = Meet | Launch | JobStop | Replace | Drop | Dismiss | Decide | JobArm
