"""What one run needs beside processes: its directory, streams, board, memory files and places.

This is also the launcher's side of the board; see `worker.board` for what it is, and how it is laid
out. The memory file is sealed at its size: a process that maps a file which was shortened is killed
by SIGBUS, and the launcher and all ranks map this one.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from collections.abc import Callable, Mapping

from procession.output.rundir import run_of
from procession.output.wiring import Output, Wiring, output_of
from procession.prepare.payload import Payload
from procession.prepare.placing import Placed, Places
from procession.system.files import named
from procession.values.base import Value
from procession.values.environment import rank_environment
from procession.values.spec import Spec
from procession.worker.board import (
    COUNTER,
    PAGE,
    RANK,
    VARIABLE,
    read,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from procession.output.wiring import RunFiles

    Environment = Callable[[int, int], Mapping[str, str]]


class Resources:
    """The files and descriptors of one run; `close` gives them back.

    payload: what the ranks run; None: it is made from the spec.

    environments: to be filled by handlers of events: each gives more variables for an attempt and
    a rank. Raises SpecError, and OSError.
    """

    def __init__(
        self,
        spec: Spec,
        places: Places,
        output: Output | None,
        payload: Payload | None,
    ) -> None:
        self.places = places
        self.environments: list[Environment] = []
        # To be closed in this order.
        self._owned: list[Payload | RunFiles | Wiring | Board | Places] = []
        try:
            self.board = Board(spec.nproc)
            self._owned.append(self.board)
            self.payload = payload or Payload()
            if payload is None:
                self.payload.make(spec)
            self._owned += [self.payload, places]
            output = output or output_of(spec)
            self.run_dir = output.files
            self._owned.append(self.run_dir)
            self.streams = Wiring(output, spec.stdin)
            self._owned.insert(0, self.streams)
            self.run_id = spec.node.job or run_of(self.run_dir.path)
            self._spec = spec
            if self.run_dir.kept:
                self.run_dir.write_run(self.asked())
            places.prepare()
        except BaseException:
            self.close()
            raise

    def given(self, attempt: int, rank: int) -> dict[str, str]:
        """Give the variables that handlers have for a rank; these may take long."""
        env: dict[str, str] = {}
        for give in self.environments:
            env |= give(attempt, rank)
        return env

    def asked(self) -> dict[str, object]:
        """Give what `run.json` holds."""
        from procession.prepare.asked import asked_of_group

        return asked_of_group(self._spec, self.run_id)

    def close(self) -> None:
        """Give everything back."""
        for each in self._owned:
            each.close()
        self._owned.clear()


def variables_of(spec: Spec, env: Mapping[str, str], placed: Placed) -> list[dict[str, str]]:
    """Give the variables of each rank, as far as they are known before an attempt.

    env: the launcher's. placed: what ranks get of the machine.
    """
    node = spec.node.__replace__(restarts=spec.restart.max)
    found: list[dict[str, str]] = []
    for rank, own in enumerate(spec.env):
        given = rank_environment(node, rank, spec.nproc, role_of(env), env, placed.cores)
        both = {**env, **given, **placed.variables(rank, env), **own}
        found.append({name: value for name, value in both.items() if value is not None})
    return found


def role_of(env: Mapping[str, str]) -> str:
    """Give the role of ranks that are asked for by a process with these variables."""
    return env.get("ROLE_NAME", "default")


class Beat(Value):
    """The progress that a rank reported last.

    beats: how often it did. at: when it last did, in nanoseconds of the monotonic clock. step,
    total: None where it gave none. fields: what else it gave, in its order.
    """

    beats: int
    at: int
    step: float | None
    total: float | None
    fields: dict[str, float | str]


SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


class Board:
    """The board of one group. Raises OSError where there is no descriptor left.

    fd: its descriptor; the agent writes on it that the group is being ended.
    """

    def __init__(self, nproc: int) -> None:
        self._nproc = nproc
        try:
            self.fd = os.memfd_create("procession-board", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        except OSError as e:
            raise named("memfd_create", e) from None
        try:
            os.ftruncate(self.fd, (1 + nproc) * PAGE)
            fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, SEALS)
        except BaseException:
            os.close(self.fd)
            raise
        self._memory: mmap.mmap | None = None
        self._seen: dict[int, Beat | None] = {}
        self._path = f"/proc/{os.getpid()}/fd/{self.fd}"

    def variable(self, rank: int) -> dict[str, str]:
        """Give the variable by which a rank finds its page."""
        return {VARIABLE: f"{self._path}:{rank}"}

    def _mapped(self) -> mmap.mmap:
        if self.fd < 0:
            raise ValueError("it is closed")
        if self._memory is None:  # not before: most groups neither beat nor are stopped
            self._memory = mmap.mmap(self.fd, (1 + self._nproc) * PAGE)
        return self._memory

    def beat(self, rank: int) -> Beat | None:
        """Give a rank's last beat, None if there was none in this life; from any thread.

        Of a rank that was stopped, or died, in the middle of a beat: the last one seen before it.
        """
        try:
            page = read(self._mapped(), (1 + rank) * PAGE, PAGE - COUNTER)
        except (OSError, ValueError):
            return None  # closed
        if page is not None:
            self._seen[rank] = _read(page)
        return self._seen.get(rank)

    def forget(self, rank: int | None = None) -> None:
        """Clear the page of a rank that starts again; None: all pages."""
        memory, empty = self._mapped(), bytes(PAGE)
        for page in range(self._nproc + 1) if rank is None else (rank + 1,):
            self._seen.pop(page - 1, None)
            if any(memory[page * PAGE : page * PAGE + COUNTER]):
                memory[page * PAGE : (page + 1) * PAGE] = empty

    def close(self) -> None:
        """Close it; ranks that live keep what they have."""
        if self._memory is not None:
            self._memory.close()
            self._memory = None
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def _read(page: bytes) -> Beat | None:
    """Read what a rank has written, which may be anything."""
    beats, at, size = RANK.unpack_from(page)
    words = page[RANK.size : RANK.size + size].decode(errors="replace").split("\0")
    try:
        step, total, *said = words
        pairs = zip(said[::2], said[1::2], strict=True)
        fields = {n: v[1:] if v.startswith(":") else float(v[1:]) for n, v in pairs}
        return Beat(beats, at, _number(step), _number(total), fields)
    except ValueError:
        return None


def _number(text: str) -> float | None:
    number = float(text) if text else None
    if number is None or number != number:  # noqa: PLR0124 (`math` is a library to load)
        return None
    return int(number) if number.is_integer() else number
