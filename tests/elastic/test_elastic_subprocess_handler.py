"""`SubprocessHandler` on its own: one program."""

import contextlib
import signal
from pathlib import Path

import pytest

import procession
from procession.elastic.subprocess_handler import SubprocessHandler, get_subprocess_handler
from support import gone, until


def code_of(handler):
    """Wait for the program, and for its group."""
    code = handler.proc.wait(30)
    with contextlib.suppress(procession.GroupFailed):
        handler._group.wait(30)
    return code


def test_a_program_and_its_output(tmp_path, monkeypatch):
    monkeypatch.setenv("OURS", "ours")
    handler = get_subprocess_handler(
        entrypoint="sh",
        args=("-c", "echo $OURS $THEIRS $0; echo err >&2; exit 4", 17),
        env={"THEIRS": "theirs"},
        stdout=str(tmp_path / "out"),
        stderr=str(tmp_path / "err"),
        local_rank_id=5,
        numa_options=None,
    )
    assert type(handler) is SubprocessHandler
    assert handler.local_rank_id == 5
    assert code_of(handler) == 4
    assert (tmp_path / "out").read_text() == "ours theirs 17\n"
    assert (tmp_path / "err").read_text() == "err\n"


def test_the_console(capfd):
    handler = SubprocessHandler("sh", ("-c", "echo out; echo err >&2"), {}, None, "", 0, None)
    assert code_of(handler) == 0
    assert capfd.readouterr() == ("out\n", "err\n")


@pytest.mark.parametrize("number", [None, signal.SIGHUP, signal.SIGKILL])
def test_close_signals_all_that_the_program_started(tmp_path, number):
    script = f"sleep 60 & echo $! > {tmp_path}/child; wait"
    handler = SubprocessHandler("sh", ("-c", script), {}, "", "", 0)
    child = until(lambda: _number_in(tmp_path / "child"))
    assert handler.proc.poll() is None
    handler.close(number)
    assert code_of(handler) == -(number or signal.SIGTERM)
    gone([child])


def _number_in(path):
    try:
        return int(Path(path).read_text())
    except (OSError, ValueError):
        return None


def test_what_is_refused():
    with pytest.raises(FileNotFoundError):
        SubprocessHandler("no-such-program", (), {}, None, None, 0)
    with pytest.raises(NotImplementedError):
        SubprocessHandler("true", (), {}, None, None, 0, object())
