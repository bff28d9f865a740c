"""One end of the way between a driver and an agent, on a real connection."""

import socket

import pytest

from procession.engines.link import Link
from procession.engines.wire import LARGE, Wire
from procession.system.eventloop import EventLoop

KEY = b"k" * 32


@pytest.fixture
def ends():
    """Give a link, its loop, its peer's socket and wire, and what it tells."""
    loop = EventLoop()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        theirs = socket.create_connection(listener.getsockname())
        ours, _ = listener.accept()
    taken, lost = [], []
    link = Link(loop, ours, KEY, "driver", taken.append, lost.append)
    peer = Wire(KEY, "agent")
    theirs.sendall(peer.opening)
    loop.turn()
    peer.feed(theirs.recv(1000))
    yield link, loop, theirs, peer, taken, lost
    link.close()
    theirs.close()
    loop.close()


def test_what_has_come_can_be_read_before_its_turn(ends):
    link, _, theirs, peer, taken, lost = ends
    before = link.heard_at
    link.look()
    assert (taken, link.heard_at) == ([], before)
    theirs.sendall(peer.pack("pulse", {}))
    link.look()
    assert [m.kind for m in taken] == ["pulse"]
    assert link.heard_at > before
    theirs.close()
    link.look()
    assert lost == ["its connection ended"]
    link.look()  # does nothing


def test_a_large_blob_comes_whole_between_others(ends):
    link, loop, theirs, peer, _, _ = ends
    blob = b"x" * (32 * LARGE)  # more than the kernel takes at once
    link.send("beat", {"at": 1})
    link.send("launch", {"at": 2}, blob)
    link.send("beat", {"at": 3})
    assert link.waiting
    theirs.setblocking(False)
    peer.trusted = True  # a first message that long is refused
    found = []
    while len(found) < 3:
        try:
            found += peer.feed(theirs.recv(1 << 20))
        except BlockingIOError:
            loop.turn()
    assert [(m.kind, m.fields["at"], len(m.blob)) for m in found] == [
        ("beat", 1, 0),
        ("launch", 2, len(blob)),
        ("beat", 3, 0),
    ]
    assert not link.waiting
