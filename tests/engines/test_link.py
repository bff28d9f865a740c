"""One end of the way between a driver and an agent, on a real connection."""

import socket

import pytest

from seams.system import EventLoop
from seams.wire import PART, SENT, Link, Wire

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
    peer = Wire(KEY, "agent", encrypts=False)
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


def received(link, loop, theirs, peer, count):
    """Let the peer read until it has so many messages."""
    theirs.setblocking(False)
    # What was sent may still be on its way when nothing is left to be sent.
    loop.watch(theirs.fileno(), lambda: None)
    found = []
    while len(found) < count:
        try:
            data = theirs.recv(1 << 20)
        except BlockingIOError:
            loop.turn()
            continue
        found += peer.feed(data)
    loop.forget(theirs.fileno())
    return found


def test_a_large_blob_comes_whole_and_in_its_order(ends):
    link, loop, theirs, peer, _, _ = ends
    blob = b"x" * (32 * PART)  # more than the kernel takes at once
    link.send("meet", {"at": 1})
    link.send("launch", {"at": 2}, blob)
    link.send("stop", {"at": 3})
    assert link.waiting
    found = received(link, loop, theirs, peer, 3)
    assert [(m.kind, m.fields["at"], len(m.blob)) for m in found] == [
        ("meet", 1, 0),
        ("launch", 2, len(blob)),
        ("stop", 3, 0),
    ]
    assert not link.waiting


def test_signs_of_life_do_not_wait_for_large_blobs(ends):
    link, loop, theirs, peer, _, _ = ends
    link.send("meet")
    received(link, loop, theirs, peer, 1)
    link.send("value", {"rank": 0}, b"x" * (64 * PART))
    link.send("value", {"rank": 1}, b"x" * (64 * PART))
    link.send("ended")
    for at in range(3):
        link.send("pulse", {"at": at})
    found = received(link, loop, theirs, peer, 6)
    assert [m.kind for m in found] == ["pulse"] * 3 + ["value"] * 2 + ["ended"]
    assert not link.waiting


def test_what_is_sent_at_once_is_little(ends):
    """However much is to be sent, and however quickly it is read, the loop has its turn."""
    link = ends[0]
    sent = []

    class Counting:
        def __getattr__(self, name):
            return getattr(link_socket, name)

        def send(self, data):
            sent.append(len(data))
            return len(data)

    link_socket, link._socket = link._socket, Counting()
    link.send("value", {"rank": 0}, b"x" * (64 * PART))
    assert sum(sent) < 2 * SENT
    before = sum(sent)
    link.look()
    assert before < sum(sent) < before + 2 * SENT
    link._socket = link_socket
