"""Messages between launcher and forkserver, over a real socket."""

import contextlib
import os
import select
import signal
import socket
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seams.forkserver import FDS_AT_ONCE, Receiver, ancillary, encode, pieces, send


@contextlib.contextmanager
def sockets():
    """Give a socket to send on and a receiver at its other end."""
    left, right = socket.socketpair()
    with left, right:
        right.setblocking(False)
        receiver = Receiver(right)
        try:
            yield left, receiver
        finally:
            receiver.close()


@contextlib.contextmanager
def files(count):
    """Give descriptors of that many files, which hold their numbers."""
    fds = []
    try:
        for i in range(count):
            fds.append(os.memfd_create(f"file-{i}"))
            os.pwrite(fds[-1], str(i).encode(), 0)
        yield fds
    finally:
        for fd in fds:
            os.close(fd)


def contents(fds):
    """Read and close what was received."""
    read = []
    for fd in fds:
        read.append(int(os.pread(fd, 20, 0)))
        assert not os.get_inheritable(fd)
        os.close(fd)
    return read


def everything(receiver):
    """Read until there is nothing more, for now or for ever."""
    frames = []
    while not receiver.ended and select.select([receiver._sock], [], [], 0)[0]:
        frames += receiver.receive()
    return frames


MESSAGES = st.tuples(
    st.text(max_size=10),
    st.dictionaries(st.text(max_size=5), st.integers() | st.none() | st.lists(st.binary())),
    st.integers(-(2**63), 2**64),
)


@pytest.mark.parametrize(
    "message",
    [
        ("rest", 2.5),
        ("signal", 15, [0, 1, 2]),
        ("spawned", 0, 1234, 10**18),
        ("exited", 1, None, 0.25, 1 << 40, -1),
        (
            "begin",
            {"env": {"A": "\udc80", "B": "x" * 100_000}, "cwd": None, "flags": (True, b"\0")},
        ),
    ],
)
def test_round_trip(message):
    with sockets() as (sock, receiver):
        send(sock, message)
        assert everything(receiver) == [(message, [])]
        assert not receiver.ended


def test_several_messages_at_once_keep_their_order():
    with sockets() as (sock, receiver):
        for i in range(100):
            send(sock, ("n", i))
        assert [message[1] for message, _ in everything(receiver)] == list(range(100))


@pytest.mark.parametrize("count", [0, 1, 249, 250, 251, 300, 600])
def test_descriptors_travel_beside_their_message(count):
    with sockets() as (sock, receiver), files(count) as fds:
        send(sock, ("spawn", {"rank": 3}), fds)
        [(message, received)] = everything(receiver)
        assert message == ("spawn", {"rank": 3})
        assert contents(received) == list(range(count))


def test_each_message_gets_its_own_descriptors():
    with sockets() as (sock, receiver), files(9) as fds:
        for first, last in ((0, 2), (2, 2), (2, 3), (3, 9)):
            send(sock, (first, last), fds[first:last])
        for (first, last), received in everything(receiver):
            assert contents(received) == list(range(first, last))


@settings(deadline=None, max_examples=60)
@given(
    messages=st.lists(MESSAGES, min_size=1, max_size=3),
    cuts=st.lists(st.integers(0, 500), max_size=20),
)
def test_messages_may_be_cut_at_any_byte(messages, cuts):
    stream = b"".join(encode(message, []) for message in messages)
    places = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    with sockets() as (sock, receiver):
        frames = []
        for start, end in pairwise(places):
            sock.sendall(stream[start:end])
            frames += everything(receiver)
        assert [message for message, _ in frames] == messages


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 50), st.booleans()), min_size=1))
def test_descriptors_stay_with_messages_that_are_cut(plan):
    counts = [count for count, _, _ in plan]
    with sockets() as (sock, receiver), files(sum(counts)) as fds:
        frames, rest = [], list(fds)
        for i, (count, place, read_between) in enumerate(plan):
            own, rest = rest[:count], rest[count:]
            frame = encode(("spawn", i), own)
            cut = 1 + place % len(frame)
            sock.sendmsg([frame[:cut]], ancillary(own))
            if read_between:
                frames += everything(receiver)
            sock.sendall(frame[cut:])
        frames += everything(receiver)
        read = [contents(received) for _, received in frames]
        assert [message[1] for message, _ in frames] == list(range(len(counts)))
        assert [i for numbers in read for i in numbers] == list(range(sum(counts)))
        assert [len(numbers) for numbers in read] == counts


@pytest.mark.parametrize("count", [0, 1, 250, 251, 500, 501, 1000])
def test_no_piece_carries_more_than_the_kernel_takes(count):
    frame = encode(("x",), list(range(count)))
    cut = pieces(frame, list(range(count)))
    assert b"".join(piece for piece, _ in cut) == frame
    assert [fd for _, fds in cut for fd in fds] == list(range(count))
    assert all(piece and len(fds) <= FDS_AT_ONCE for piece, fds in cut)


def test_the_end_is_seen():
    with sockets() as (sock, receiver):
        send(sock, ("last",))
        sock.close()
        assert everything(receiver) == [(("last",), [])]
        assert receiver.ended


def test_a_message_that_is_cut_off_by_the_end_is_dropped_with_its_descriptors():
    frame = encode(("spawn", {"rank": 0}), [1, 2])
    for cut in range(1, len(frame)):
        with sockets() as (sock, receiver), files(2) as fds:
            before = len(os.listdir("/proc/self/fd"))
            sock.sendmsg([frame[:cut]], ancillary(fds))
            sock.close()
            assert everything(receiver) == []
            assert receiver.ended
            receiver.close()
            assert len(os.listdir("/proc/self/fd")) == before - 1  # the socket


def test_a_reset_is_an_end():
    with sockets() as (sock, receiver):
        send(receiver._sock, ("never read",))
        sock.close()  # with something unread: the other end sees ECONNRESET
        everything(receiver)
        assert receiver.ended


def test_descriptors_that_the_kernel_dropped_are_minus_one():
    """As with a receiver that may open no more files."""
    with sockets() as (sock, receiver), files(2) as fds:
        sock.sendmsg([encode(("spawn",), [1, 2, 3])], ancillary(fds))
        [(message, received)] = everything(receiver)
        assert message == ("spawn",)
        assert received[2] == -1
        assert contents(received[:2]) == [0, 1]


def test_a_signal_travels_as_a_number():
    """`marshal` takes no enumerations: what is sent must be a plain number."""
    assert encode(("signal", int(signal.SIGKILL), [0]), [])
    with pytest.raises(ValueError, match="unmarshallable"):
        encode(("signal", signal.SIGKILL, [0]), [])


def test_sending_to_nobody_is_an_error_of_the_system():
    with sockets() as (sock, receiver):
        receiver._sock.close()
        with pytest.raises(OSError, match="Broken pipe"):
            send(sock, ("x",))
