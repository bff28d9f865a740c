"""A `PContext` of one's own, in the form of the original: `_start`, `_poll`, `pids`, `_close`."""

import signal
import subprocess

import pytest

from procession.elastic import DefaultLogsSpecs, PContext, RunProcsResult, Std
from procession.elastic.api import _terminate_process_handler
from support import alive


class Shell(PContext):
    """One shell per rank, as somebody wrote it for the original."""

    def _start(self):
        self.shells = {}
        for rank, args in self.args.items():
            with open(self.stdouts[rank], "w") as out:
                command = ["/bin/sh", "-c", self.entrypoint, "sh", *args]
                self.shells[rank] = subprocess.Popen(command, stdout=out)

    def _poll(self):
        codes = [shell.poll() for shell in self.shells.values()]
        return None if None in codes else RunProcsResult(stdouts=self.stdouts)

    def pids(self):
        return {rank: shell.pid for rank, shell in self.shells.items()}

    def _close(self, death_sig, timeout=30):
        self.closed_by = death_sig
        for shell in self.shells.values():
            shell.send_signal(death_sig)
            shell.wait(timeout)


def shells(tmp_path, script, **more):
    specs = DefaultLogsSpecs(str(tmp_path / "logs"), redirects=Std.OUT, tee=Std.OUT)
    made = Shell("sh", script, {0: ("a",), 1: ("b",)}, {0: {}, 1: {}}, specs, **more)
    made.start()
    return made


def test_it_runs_and_its_logs_are_shown(tmp_path, capfd):
    pc = shells(tmp_path, "echo one $1; echo two", duplicate_stdout_filters=["one"])
    try:
        assert signal.getsignal(signal.SIGTERM) is _terminate_process_handler
        result = pc.wait(timeout=30, period=0.01)
        assert result is not None
        assert not result.is_failed()
    finally:
        pc.close()
    shown = capfd.readouterr().out.splitlines()
    assert sorted(shown) == ["[sh0]:one a", "[sh0]:two", "[sh1]:one b", "[sh1]:two"]
    with open(pc.filtered_stdout.name) as copy:
        assert sorted(copy) == ["[sh0]:one a\n", "[sh1]:one b\n"]
    assert signal.getsignal(signal.SIGTERM) is not _terminate_process_handler


@pytest.mark.parametrize("number", [None, signal.SIGINT])
def test_it_is_closed(tmp_path, number):
    pc = shells(tmp_path, "exec sleep 60")
    try:
        assert pc.wait(0) is None
        assert pc.wait(timeout=0.05, period=0.01) is None
    finally:
        pc.close(number)
    assert pc.closed_by == (number or signal.SIGTERM)
    assert not any(alive(pid) for pid in pc.pids().values())


def test_ours_have_the_same_methods(tmp_path):
    from procession.elastic import start_processes

    specs = DefaultLogsSpecs(str(tmp_path / "logs"))
    pc = start_processes("sleep", "sleep", {0: ("60",)}, {0: {}}, specs)
    assert pc._poll() is None
    pc._close(death_sig=signal.SIGTERM, timeout=30)
    assert pc._poll().failures[0].exitcode == -signal.SIGTERM
    pc.close()
