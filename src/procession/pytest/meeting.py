"""Where the ranks of a session that a launcher has started meet: they connect to rank 0.

Rank 0 listens at an abstract socket, so that no file is left. Its name is made of variables that
the launcher gives to all ranks. Only processes of the same user may connect.
"""

from __future__ import annotations

import hashlib
import os
import socket
import time

from procession.pytest.wire import Line
from procession.system.identity import peer_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from procession.pytest.place import Place

ALL_THERE = 120.0  # seconds that the ranks may take to begin
PAUSE = 0.05  # seconds between two attempts to meet


class NotTogether(Exception):
    """The ranks do not come together."""


def _address(place: Place) -> str:
    digest = hashlib.sha256(place.name.encode()).hexdigest()[:32]
    return f"\0procession-pytest-{os.getuid()}-{digest}"


def joined(place: Place) -> Line:
    """Join the others as a rank that is not rank 0. Raises NotTogether."""
    deadline = time.monotonic() + ALL_THERE
    while True:
        peer = socket.socket(socket.AF_UNIX)
        try:
            peer.connect(_address(place))
            if peer_of(peer)[1] == os.getuid():
                line = Line(peer)
                line.send(place.number)
                return line
        except OSError:
            pass
        peer.close()
        if time.monotonic() > deadline:
            raise NotTogether(f"rank 0 has not been there for {ALL_THERE:g} s")
        time.sleep(PAUSE)


def gathered(place: Place) -> tuple[dict[int, Line], dict[int, int]]:
    """Wait as rank 0 for all others; gives their lines, and their pids. Raises NotTogether."""
    lines: dict[int, Line] = {}
    pids: dict[int, int] = {}
    deadline = time.monotonic() + ALL_THERE
    with socket.socket(socket.AF_UNIX) as door:
        try:
            door.bind(_address(place))
        except OSError as e:
            raise NotTogether(f"somebody else is rank 0 of the same run: {e}") from None
        door.listen(place.size)
        while len(lines) < place.size - 1:
            door.settimeout(max(0.1, deadline - time.monotonic()))
            try:
                peer, _ = door.accept()
            except TimeoutError:
                raise NotTogether(
                    f"{len(lines) + 1} of {place.size} ranks came within {ALL_THERE:g} s"
                ) from None
            peer.settimeout(None)
            pid, uid = peer_of(peer)
            if uid != os.getuid():
                peer.close()
                continue
            line = Line(peer)
            number = line.receive()
            lines[number], pids[number] = line, pid
    return lines, pids
