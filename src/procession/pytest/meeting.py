"""Where the workers of a pytest-xdist session find the stem that they have in common.

Theory of operation. Where tests with ranks use shared fixtures (`sharedfixtures`), these are made
once for all workers: so their ranks must be forks of one process. The first worker that has
collected takes a lock in a directory of the session, and forks the stem, which holds that lock as
long as it lives. In the locked file is the name of its socket: abstract, so that no file is left,
and random, so that no other stem ever has the same. The others read it and connect. Both ends check
that the other one is of the same user, and the stem that a worker has the same tests. A worker that
is lost takes nothing with it: the stem ends when no worker is connected any more; and if it is lost
between two sessions' ends, the next worker that comes takes the lock.

Where no test uses a shared fixture, each worker has a stem of its own: what conftest files and test
modules compute when they are imported (a free port, say) may differ from worker to worker then.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import socket
import time
from pathlib import Path

from procession.pytest import identity
from procession.pytest.maker import greeting_of
from procession.pytest.sharedfixtures import wanted_by
from procession.pytest.stem import Stem, grown
from procession.pytest.wire import Line
from procession.warm.wire import peer_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PATIENCE = 20.0  # seconds that another worker may take to fork the stem, and that to answer
PAUSE = 0.01  # seconds between two looks
BACKLOG = 256
NAME_LENGTH = 64  # bytes, at most


class _Elsewhere(Exception):
    """The stem of the others is not for this worker."""


def stem_of(session: Any, marked: list[Any], terminal: tuple[int, ...]) -> Stem:
    """Give what the ranks of this session's tests are forked from. marked: its tests with ranks."""
    if _is_wanted(session.config, marked):
        try:
            return _in_common(session)
        except (_Elsewhere, OSError, AttributeError, ValueError):
            pass  # then it has its own, as without shared fixtures
    return Stem(*grown(session, terminal))


def _is_wanted(config: Any, marked: list[Any]) -> bool:
    given: dict[str, Any] = getattr(config, "workerinput", {})
    return given.get("workercount", 1) > 1 and any(wanted_by(item)[0] for item in marked)


def _in_common(session: Any) -> Stem:
    config = session.config
    mine = identity.identity_of(config)
    where = _directory(config)
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        lock = os.open(where / "stem", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            line = _founded(session, lock) if _locked(lock) else _met(session, lock)
        finally:
            os.close(lock)
        if line is not None:
            return Stem(line, identity=mine)
        time.sleep(PAUSE)
    raise _Elsewhere


def _directory(config: Any) -> Path:
    """Give the directory of this session. Raises OSError if it is not this user's alone."""
    # The base directories of workers lie side by side.
    run = "".join(c for c in str(config.workerinput["testrunuid"]) if c.isalnum())
    where = config._tmp_path_factory.getbasetemp().parent / f"ranks-stem-{run}"
    where.mkdir(mode=0o700, exist_ok=True)
    found = where.lstat()
    if found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise PermissionError(f"{where} is not the user's alone")
    return where


def _locked(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _founded(session: Any, lock: int) -> Line:
    """Fork the stem, which takes the lock over; gives the line to it."""
    pipes = identity.pipes_of(session.config)
    with socket.socket(socket.AF_UNIX) as door:
        name = f"\0procession-pytest-{secrets.token_hex(16)}".encode()
        door.bind(name)
        door.listen(BACKLOG)
        os.ftruncate(lock, 0)
        os.pwrite(lock, name, 0)
        return grown(session, door=door, lock=lock, pipes=pipes)[0]


def _met(session: Any, lock: int) -> Line | None:
    """Connect to the stem that another worker has forked; None if it is not there yet, or gone.

    Raises _Elsewhere if it is not for this worker.
    """
    name = os.pread(lock, NAME_LENGTH, 0)
    if not name:
        return None
    peer = socket.socket(socket.AF_UNIX)
    peer.settimeout(PATIENCE)
    line = Line(peer)
    try:
        peer.connect(name)
        if peer_of(peer)[1] != os.getuid():
            raise _Elsewhere
        line.send(("greeting", greeting_of(session)))
        welcome = line.receive()
    except (EOFError, OSError):
        line.close()
        return None
    if not welcome:
        line.close()
        raise _Elsewhere
    peer.settimeout(None)
    return line
