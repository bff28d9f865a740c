"""Messages between launcher and agent, over a real socket."""

import contextlib
import errno
import os
import select
import socket
from unittest.mock import Mock

from hypothesis import given, settings
from hypothesis import strategies as st

from seams.agent import Receiver, Sender, ancillary, encode


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


def test_a_message_waits_while_too_many_descriptors_of_its_user_are_on_their_way():
    sender = Sender(Mock(sendmsg=Mock(side_effect=[OSError(errno.ETOOMANYREFS, ""), 1000])))
    sender.send(("spawn", 0), [], [])
    assert (sender.waiting, sender.lost) == (True, False)
    sender.flush()
    assert not sender.waiting
