"""Commands that a forkserver is too late for: each is carried out once, there or here."""

from types import SimpleNamespace

import pytest

from seams.supervise import link


def ignored(*_):
    pass


@pytest.fixture
def sent():
    return []


@pytest.fixture
def made(sent):
    server = SimpleNamespace(silent=False, lost="", sharing="", waiting=False, pid=1)
    server.wake, server.fileno = ignored, lambda: 3
    server.send = lambda message, *_: sent.append(message)
    loop = SimpleNamespace(watch=ignored, after=ignored, cancel=ignored, want_write=ignored)
    return link.Link(loop, server, SimpleNamespace(), ignored, ignored, [])


def test_what_waits_for_one_answer_has_one_deadline(made, sent):
    """When it has passed, all of them are carried out here: none may be obeyed after that."""
    made._command(("signal", 15, [0]), ignored, once=True)
    made._command(("signal", 2, [0]), ignored, once=True)
    (_, first, by, _), (_, second, by_second, _) = sent
    assert second > first
    assert by_second == by


def test_a_command_that_was_not_obeyed_is_carried_out_here(made, sent):
    here = []
    made._command(("signal", 15, [0]), lambda: here.append("signal"), once=True)
    made._command(("cancel",), lambda: here.append("cancel"))
    made._hear_one("late", [sent[0][1]], [])
    made._hear_one("done", [sent[1][1]], [])
    made._hear_one("late", [sent[0][1]], [])
    assert here == ["signal"]
