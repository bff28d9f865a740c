"""Where ranks come to the process that hears them: pytest's, or rank 0 of a launcher's ranks.

It listens at an abstract socket, so that no file is left. Only processes of the same user may come.
A rank gives its own end a name that ends with its number.
"""

from __future__ import annotations

import hashlib
import os
import select
import socket
import time
from multiprocessing.connection import Connection

import pytest

from procession.system.identity import peer_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from procession.pytest.place import PlaceOfRank

ALL_THERE = 120.0  # seconds that the ranks may take to begin
PAUSE = 0.05  # seconds between two attempts to meet


def not_together(said: str) -> pytest.UsageError:
    """Say why the ranks of a launcher are not those of a session."""
    return pytest.UsageError(f"--ranks-from-environment: {said}")


def door(name: str, most: int) -> socket.socket:
    """Make a socket where ranks come in. most: that may come at a time. Raises OSError."""
    found = socket.socket(socket.AF_UNIX)
    try:
        found.bind(f"\0{name}")
        found.listen(most)
    except BaseException:
        found.close()
        raise
    found.setblocking(False)
    return found


def let_in(door: socket.socket) -> tuple[int, int, Connection] | None:
    """Give number, pid and connection of a rank that has come, None if none has."""
    while True:
        try:
            peer, name = door.accept()
        except BlockingIOError:
            return None
        pid, uid = peer_of(peer)
        if uid == os.getuid():
            return int(name.rpartition(b"/")[2]), pid, Connection(peer.detach())
        peer.close()


def joined(name: str, number: int, seconds: float = 0.0) -> Connection:
    """Come to a door as a rank. seconds: until it must be there. Raises OSError."""
    deadline = time.monotonic() + seconds
    while True:
        peer = socket.socket(socket.AF_UNIX)
        try:
            peer.bind(f"\0{name}/{number}")
            peer.connect(f"\0{name}")
            if peer_of(peer)[1] == os.getuid():
                return Connection(peer.detach())
        except OSError:
            pass
        peer.close()
        if time.monotonic() >= deadline:
            raise TimeoutError(f"nobody has heard the ranks for {seconds:g} s")
        time.sleep(PAUSE)


def door_of(place: PlaceOfRank) -> str:
    """Name the door of ranks that a launcher has started."""
    digest = hashlib.sha256(place.name.encode()).hexdigest()[:32]
    return f"procession-pytest-{os.getuid()}-{digest}"


def gathered(place: PlaceOfRank) -> tuple[dict[int, Connection], dict[int, int]]:
    """Wait as rank 0 for all others; gives their lines, and their pids. Raises UsageError."""
    lines: dict[int, Connection] = {}
    pids: dict[int, int] = {}
    deadline = time.monotonic() + ALL_THERE
    try:
        here = door(door_of(place), place.size)
    except OSError as e:
        raise not_together(f"somebody else is rank 0 of the same run: {e}") from None
    with here:
        while len(lines) < place.size - 1:
            if not select.select([here], [], [], max(0.1, deadline - time.monotonic()))[0]:
                raise not_together(
                    f"{len(lines) + 1} of {place.size} ranks came within {ALL_THERE:g} s"
                )
            while came := let_in(here):
                number, pid, line = came
                lines[number], pids[number] = line, pid
    return lines, pids
