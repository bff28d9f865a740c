"""Where connections wait until it is known who has made them."""

import os
import socket
import threading

import pytest

from conftest import until
from seams.jobs import EngineError
from seams.rendezvous import Anteroom, introduction
from seams.system import EventLoop

KEY = b"k" * 32
EXPECTED = 200


class Room:
    """An anteroom behind a socket that listens; connections are introduced by the word `me`."""

    def __init__(self):
        self.loop, self.entered = EventLoop(), []
        self.door = socket.create_server(("127.0.0.1", 0), backlog=100)
        self.asked, self.may_answer = [], threading.Event()
        self.may_answer.set()
        self.anteroom = Anteroom(
            self.loop, self.admit, lambda *found: self.entered.append(found), EXPECTED
        )

    def admit(self, words):
        self.asked.append(words)
        assert self.may_answer.wait(60)
        if words != b"me":
            raise EngineError("not me")
        return KEY

    def come(self, *parts):
        """Connect, and send these; gives the other end of the connection."""
        sock = socket.create_connection(self.door.getsockname())
        self.anteroom.receive(self.door.accept()[0])
        for part in parts:
            sock.sendall(part)
        sock.setblocking(False)
        return sock

    def turn(self):
        self.loop.after("turn", 0.01, lambda: None)
        self.loop.turn()

    def close(self):
        self.may_answer.set()
        self.anteroom.close()
        for sock, _ in self.entered:
            sock.close()
        self.door.close()
        self.loop.close()


@pytest.fixture
def room():
    made = Room()
    yield made
    made.close()


def test_a_thousand_that_say_nothing_or_garbage_keep_nobody_out(room):
    held = [room.come(*([os.urandom(9)] if n % 2 else [])) for n in range(1000)]
    with room.come(introduction(b"me")):
        until(lambda: room.turn() or room.entered, "it gets in")
    for each in held:
        each.close()


def test_who_has_given_up_while_others_were_asked_about_does_not_get_in(room):
    """It comes again, and would be taken for one that was there, and is lost."""
    room.may_answer.clear()
    first = room.come(introduction(b"me"))
    until(lambda: room.turn() or room.asked, "it is asked about")
    room.come(introduction(b"me")).close()
    until(lambda: room.turn() or len(room.anteroom._introduced) == 2, "both wait")
    first.close()
    room.may_answer.set()
    with room.come(introduction(b"me")):
        until(lambda: room.turn() or room.entered, "the last one gets in")
        until(lambda: room.turn() or not room.anteroom._introduced, "nobody waits")
    assert (len(room.entered), len(room.asked)) == (1, 2)
