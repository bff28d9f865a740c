"""Trials of features: what they say when something is missing, and that they leave nothing."""

import errno
import os
import signal
import threading

import pytest

from seams.system import directories, probe

FEATURES = [*probe.HERE, *probe.IN_CHILD]
NEEDED = [f for f in FEATURES if f not in ("close_range", "proc_children")]


@pytest.mark.parametrize("name", NEEDED)
def test_works_here(name):
    assert probe.try_feature(name) == probe.Tried(True)


@pytest.mark.parametrize("name", FEATURES)
def test_leaves_nothing(name):
    fds, mask = os.listdir("/proc/self/fd"), signal.pthread_sigmask(signal.SIG_BLOCK, ())
    probe.try_feature(name)
    assert os.listdir("/proc/self/fd") == fds
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == mask
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_this_process_is_no_subreaper_and_has_its_signal_still():
    import ctypes

    for name in FEATURES:
        probe.try_feature(name)
    libc, value = ctypes.CDLL(None), ctypes.c_int(7)
    for option in (37, 2):  # PR_GET_CHILD_SUBREAPER, PR_GET_PDEATHSIG
        assert libc.prctl(option, ctypes.byref(value), 0, 0, 0) == 0
        assert value.value == 0


@pytest.mark.parametrize("name", FEATURES)
def test_a_kernel_or_filter_that_refuses(name, monkeypatch):
    def refuse(*_args, **_more):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    for owner, names in (
        (os, ("pidfd_open", "memfd_create", "eventfd", "waitid", "open", "mkdir")),
        (signal, ("pidfd_send_signal",)),
        (probe, ("become_subreaper", "die_with_parent", "Inotify")),
        (probe.ctypes, ("CDLL",)),
    ):
        for attribute in names:
            monkeypatch.setattr(owner, attribute, refuse)
    assert probe.try_feature(name) == probe.Tried(False, "Function not implemented")


def test_a_directory_for_sockets_that_others_may_enter(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert probe.try_feature("control").works
    assert not os.listdir(tmp_path)
    (tmp_path / "procession").mkdir(mode=0o755)
    assert "others may enter" in probe.try_feature("control").why


def test_records_are_tried_where_they_are_kept(monkeypatch, tmp_path):
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert probe.try_feature("state").works
    assert not os.listdir(tmp_path)
    monkeypatch.setenv("HOME", "/proc/nowhere")
    assert not probe.try_feature("state").works


def test_a_user_without_a_home(monkeypatch, tmp_path):
    """As in a container that runs as a number which nobody knows."""
    monkeypatch.chdir(tmp_path)
    for name in ("XDG_STATE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 4242424)
    assert probe.try_feature("state").why == "this user has no home directory"
    assert directories.state_directory() == ""
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("name", ["pidfd_open", "memfd_create", "eventfd"])
def test_a_python_without_it(name, monkeypatch):
    monkeypatch.delattr(os, name)
    assert probe.try_feature(name) == probe.Tried(False, "this Python was built without it")


def test_inotify_is_tried_where_the_interpreter_may_not_be_read(monkeypatch):
    monkeypatch.setattr("sys.executable", "/nowhere")
    assert probe.try_feature("inotify").works


def test_a_python_without_close_range(monkeypatch):
    monkeypatch.setattr(probe.sysconfig, "get_config_var", lambda name: 0)
    assert not probe.try_feature("close_range").works


def test_calls_that_succeed_and_do_nothing(monkeypatch):
    monkeypatch.setattr(probe, "become_subreaper", lambda: None)
    assert probe.try_feature("subreaper").why == "an orphan went to another process"
    monkeypatch.setattr(probe, "die_with_parent", lambda parent: True)
    assert probe.try_feature("parent_death_signal").why == "the process lived on"
    monkeypatch.setattr(signal, "pidfd_send_signal", lambda fd, number: None)
    assert probe.try_feature("pidfd_send_signal").why == "the process lived on"


def test_a_parent_that_is_gone(monkeypatch):
    monkeypatch.setattr(probe, "die_with_parent", lambda parent: False)
    assert probe.try_feature("parent_death_signal").why == "its parent was gone"


def test_no_process_left(monkeypatch):
    def refuse():
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(os, "fork", refuse)
    told = probe.try_feature("subreaper")
    assert told == probe.Tried(False, "Resource temporarily unavailable")


def test_a_trial_that_hangs(monkeypatch):
    monkeypatch.setattr(probe, "SECONDS", 1)
    monkeypatch.setitem(probe.IN_CHILD, "subreaper", signal.pause)
    assert probe.try_feature("subreaper") == probe.Tried(False, "its trial did not end")


def test_a_trial_that_dies(monkeypatch):
    monkeypatch.setitem(probe.IN_CHILD, "subreaper", lambda: os.kill(os.getpid(), 9))
    assert probe.try_feature("subreaper") == probe.Tried(False, "its trial did not end")


def test_a_program_that_ignores_its_children():
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        assert all(probe.try_feature(name).works for name in NEEDED)
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_from_another_thread_with_signals_blocked():
    told = []

    def look():
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        told.extend(probe.try_feature(name).works for name in NEEDED)

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert told == [True] * len(NEEDED)


def test_what_cannot_be_found_out(tmp_path):
    assert probe.space(f"{tmp_path}/nowhere") is None
    assert probe.rlimit("NOTHING") is None


def test_packages():
    assert probe.package("pytest") == pytest.__version__
    assert probe.package("no_such_package") is None
    assert probe.package("json") == "of unknown version"


def test_a_package_that_is_half_imported(monkeypatch):
    import sys
    import types

    broken = types.ModuleType("half")
    broken.__spec__ = None
    monkeypatch.setitem(sys.modules, "half", broken)
    assert probe.package("half") is None


def test_launchers():
    env = {"SLURM_JOB_ID": "7", "SLURM_PROCID": "1", "PMI_RANK": "1", "HOME": "/"}
    told = probe.launchers(env)
    assert told["Slurm"] == {"SLURM_JOB_ID": "7", "SLURM_PROCID": "1"}
    assert told["MPI"] == {"PMI_RANK": "1"}
    assert told["torchrun"] == {}
