"""Signals that raise `SignalException` while there are ranks, and are given back."""

import logging
import os
import signal
import sys
import threading
import types

import pytest

from procession.elastic import DefaultLogsSpecs, SignalException, start_processes
from procession.elastic.api import _terminate_process_handler
from seams.elastic import context
from support import Launcher, alive, gone, until, write

DEFAULT = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)


@pytest.fixture
def specs(tmp_path):
    return DefaultLogsSpecs(log_dir=str(tmp_path / "logs"))


def sleeping(specs):
    return start_processes("sleep", "sleep", {0: ("60",)}, {0: {}}, specs)


def send(number):
    os.kill(os.getpid(), number)
    until(lambda: False, "the exception")


def handlers():
    return [signal.getsignal(number) for number in DEFAULT]


@pytest.mark.parametrize("number", DEFAULT)
def test_signals_raise(specs, number):
    pc = sleeping(specs)
    with pytest.raises(SignalException, match=f"Process {os.getpid()} got signal: ") as raised:
        send(number)
    assert raised.value.sigval is number
    pc.close(raised.value.sigval)
    assert pc.wait().failures[0].exitcode == -number


def test_signals_interrupt_wait(specs):
    pc = sleeping(specs)
    timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM))
    timer.start()
    with pytest.raises(SignalException):
        pc.wait()
    timer.join()
    assert pc.wait(0) is None  # the ranks are untouched
    pc.close()


def test_signals_interrupt_a_start_and_nothing_is_left(specs, monkeypatch):
    def signalled(group, nproc):
        until(lambda: len(group.pids()) == nproc)
        pids.extend(group.pids().values())
        send(signal.SIGTERM)

    pids = []
    monkeypatch.setattr(context, "_wait_until_all_ran", signalled)
    before = handlers()
    with pytest.raises(SignalException):
        start_processes("sleep", "sleep", {0: ("60",), 1: ("60",)}, None, specs)
    assert len(pids) == 2
    assert not any(alive(pid) for pid in pids)
    assert handlers() == before


def test_signals_of_ones_own(specs, monkeypatch, caplog):
    caplog.set_level(logging.INFO, "procession.elastic.api")
    monkeypatch.setenv("TORCHELASTIC_SIGNALS_TO_HANDLE", "SIGUSR1, SIGTERM,SIGNONE,SIGKILL")
    before = handlers()
    pc = sleeping(specs)
    assert handlers() == [_terminate_process_handler, *before[1:]]
    with pytest.raises(SignalException) as raised:
        send(signal.SIGUSR1)
    assert raised.value.sigval is signal.SIGUSR1
    pc.close()
    assert "Registered signal handler for SIGUSR1" in caplog.text
    for wrong in ("SIGNONE", "SIGKILL"):
        assert f"Failed to register signal handler for {wrong}" in caplog.text


@pytest.mark.parametrize("way", ["close", "wait", "fail"])
def test_signals_are_given_back(specs, way):
    """The original keeps them for ever."""
    before = handlers()
    program = {"close": "sleep", "wait": "true", "fail": "false"}[way]
    pc = start_processes("work", program, {0: ("60",)}, {0: {}}, specs)
    assert handlers() == [_terminate_process_handler] * 4
    pc.close() if way == "close" else pc.wait()
    assert handlers() == before


def test_a_handler_of_the_users_own_stays(specs):
    def own(*_):
        pass

    before = signal.signal(signal.SIGTERM, own)
    try:
        pc = sleeping(specs)
        pc.close()
        assert signal.getsignal(signal.SIGTERM) is own
        pc = sleeping(specs)
        signal.signal(signal.SIGTERM, own)  # afterwards: then it is theirs again
        pc.close()
        assert signal.getsignal(signal.SIGTERM) is own
    finally:
        signal.signal(signal.SIGTERM, before)


def test_from_another_thread_there_is_a_warning(specs, caplog):
    before = handlers()
    started = []
    thread = threading.Thread(target=lambda: started.append(sleeping(specs)))
    thread.start()
    thread.join()
    assert handlers() == before
    assert [r.levelname for r in caplog.records] == ["WARNING"]
    assert "another thread" in caplog.text
    started[0].close()


TORCHS = "torch.distributed.elastic.multiprocessing.api"


class Theirs(Exception):
    def __init__(self, msg, sigval):
        super().__init__(msg)
        self.sigval = sigval


def as_torchs(monkeypatch, exception, name=TORCHS):
    module = types.SimpleNamespace(SignalException=exception)
    monkeypatch.setitem(sys.modules, name, module)


@pytest.mark.parametrize("theirs", [Theirs, SignalException])
def test_torchs_own_exception_where_torch_is_loaded(specs, monkeypatch, theirs):
    """Torch's agent waits for our ranks, and looks for its own, which may be ours by an alias."""
    as_torchs(monkeypatch, theirs)
    pc = sleeping(specs)
    with pytest.raises(theirs) as raised:
        send(signal.SIGTERM)
    assert isinstance(raised.value, SignalException)
    assert raised.value.sigval is signal.SIGTERM
    assert f"Process {os.getpid()} got signal: " in str(raised.value)
    pc.close()


@pytest.mark.parametrize("kind", ["function", "program"])
def test_a_launcher_that_is_signalled_takes_its_ranks_with_it(tmp_path, kind):
    entrypoint = "time.sleep" if kind == "function" else "'sleep'"
    script = write(
        tmp_path / "launch.py",
        f"""
        import time
        from procession.elastic import SignalException, start_processes

        args = {{0: (60,), 1: (60,)}}
        pc = start_processes("zombie", {entrypoint}, args, log_dir={str(tmp_path / "logs")!r})
        print("ranks", *pc.pids().values())
        try:
            pc.wait(period=1, timeout=300)
        except SignalException as e:
            pc.close(e.sigval)
            raise SystemExit(7)
        """,
    )
    with Launcher(script) as launcher:
        pids = [int(pid) for pid in launcher.said("ranks").split()]
        launcher.signal(signal.SIGTERM)
        assert launcher.end() == 7
        gone(pids)


def test_sighup_that_nohup_ignores_stays_ignored(specs):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        context = sleeping(specs)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        os.kill(os.getpid(), signal.SIGHUP)
        context.close()
    finally:
        signal.signal(signal.SIGHUP, before)
