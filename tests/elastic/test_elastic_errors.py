"""`ProcessFailure`, `ChildFailedError`, `record` and `ErrorHandler`."""

import faulthandler
import functools
import json
import signal
import sys
import time

import pytest

from procession.elastic import ProcessFailure
from procession.elastic.errors import ChildFailedError, ErrorHandler, get_error_handler, record
from procession.elastic.errors.handlers import get_error_handler as handler_of_handlers
from seams.elastic import errors
from support import run_python, write

STRUCTURED = {
    "message": {
        "message": "ValueError: no such batch",
        "extraInfo": {"py_callstack": "Traceback ...\nValueError", "timestamp": "1700000000"},
    },
    "more": "keys may stand beside",
}


@pytest.fixture(autouse=True)
def faulthandler_as_before():
    before = faulthandler.is_enabled()
    yield
    if not before:
        faulthandler.disable()


@pytest.fixture
def error_file(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(tmp_path / "error.json"))
    return tmp_path / "error.json"


def failure(tmp_path, data, exitcode=1, rank=0):
    path = write(tmp_path / f"{rank}.json", data if isinstance(data, str) else json.dumps(data))
    return ProcessFailure(local_rank=rank, pid=997, exitcode=exitcode, error_file=str(path))


def no_file(exitcode, rank=0):
    return ProcessFailure(rank, 997, exitcode, "no/such.json")


# -- ProcessFailure


def test_a_structured_error_file(tmp_path):
    found = failure(tmp_path, STRUCTURED)
    assert (found.local_rank, found.pid, found.exitcode) == (0, 997, 1)
    assert found.error_file == str(tmp_path / "0.json")
    assert found.error_file_data == STRUCTURED
    assert found.message == STRUCTURED["message"]
    assert found.timestamp == 1700000000
    assert found.signal_name() == "<N/A>"


@pytest.mark.parametrize("timestamp", [123, "123"])
def test_a_plain_error_file(tmp_path, timestamp):
    found = failure(tmp_path, {"message": "out of data", "timestamp": timestamp})
    assert (found.message, found.timestamp) == ("out of data", 123)


def test_time_in_words(tmp_path, monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    assert failure(tmp_path, STRUCTURED).timestamp_isoformat() == "2023-11-14_22:13:20"
    monkeypatch.undo()
    time.tzset()


def test_ended_by_a_signal():
    found = no_file(-9)
    assert found.error_file == "<N/A>"
    assert found.error_file_data == {"message": "<NONE>"}
    assert found.message == "Signal 9 (SIGKILL) received by PID 997"
    assert found.signal_name() == "SIGKILL"
    assert abs(found.timestamp - time.time()) < 30
    assert no_file(-99).signal_name() == "<N/A>"


def test_an_exit_code_and_no_file():
    found = no_file(3)
    assert "exit code 3" in found.message
    assert "@record" in found.message
    assert found.error_file_data["message"] == "<NONE>"
    assert found.error_file_data["errorTraits"]["category"] == "system_terminated_error"


def test_failures_without_a_file_share_nothing():
    """In the original all of them have one dict."""
    one, two = no_file(3), no_file(4)
    one.error_file_data["seen"] = True
    assert "seen" not in two.error_file_data
    assert no_file(-9).error_file_data == {"message": "<NONE>"}


@pytest.mark.parametrize(
    "torn",
    ["", '{"message": {"message": "Val', "[1]", "7", '{"no": 1}', '{"message": {"extraInfo": 1}}',
     '{"message": {"message": "x"}}', '{"message": "x", "timestamp": "noon"}', "[" * 100_000],
)  # fmt: skip
def test_a_torn_error_file_counts_as_none(tmp_path, torn, caplog):
    """The original raises, out of `wait`."""
    found = failure(tmp_path, torn, exitcode=-15)
    assert found.error_file == "<N/A>"
    assert found.message == "Signal 15 (SIGTERM) received by PID 997"
    assert [r.name for r in caplog.records] == ["procession.elastic.errors"]
    assert "0.json" in caplog.text


# -- ChildFailedError


def test_report(tmp_path, monkeypatch):
    monkeypatch.setattr("socket.getfqdn", lambda: "node7")
    late = {"message": "later", "timestamp": 1700000009}
    failures = {
        4: failure(tmp_path, late, rank=0),
        5: failure(tmp_path, STRUCTURED, exitcode=-6, rank=1),
    }
    error = ChildFailedError("trainer.py", failures)
    assert error.get_first_failure() == (5, failures[5])
    assert (error.name, error.failures) == ("trainer.py", failures)
    at = failures[5].timestamp_isoformat()
    width = min(60, len(f"  error_file: {tmp_path}/1.json"))  # of the longest line
    bar, line = "=" * width, "-" * width
    text = str(error)
    assert text == error.format_msg()
    assert text.startswith(f"\n{bar}\ntrainer.py FAILED\n{line}\nFailures:\n[0]:\n  time      : ")
    assert "  traceback : later\n" in text
    root = text.partition(f"{line}\nRoot Cause (first observed failure):\n")[2]
    assert root == (
        "[1]:\n"
        f"  time      : {at}\n"
        "  host      : node7\n"
        "  rank      : 5 (local_rank: 1)\n"
        "  exitcode  : -6 (pid: 997)  (SIGABRT)\n"
        f"  error_file: {tmp_path}/1.json\n"
        "  traceback : Traceback ...\n"
        "  ValueError\n"
        f"{bar}"
    )
    assert ChildFailedError("t", {0: no_file(1)}).format_msg("#", "~").startswith("\n#####")


# -- record


@record
def raises():
    raise LookupError("no such word")


def test_record_writes_an_exception_and_raises_it(error_file):
    with pytest.raises(LookupError):
        raises()
    data = json.loads(error_file.read_text())
    message = data["message"]
    assert message["message"] == "LookupError: no such word"
    assert message["extraInfo"].keys() == {"py_callstack", "timestamp"}
    assert 'raise LookupError("no such word")' in message["extraInfo"]["py_callstack"]
    assert abs(int(message["extraInfo"]["timestamp"]) - time.time()) < 30
    assert ProcessFailure(0, 1, 1, str(error_file)).message == message


@pytest.mark.parametrize("value", [None, ""])
def test_record_without_an_error_file_writes_nothing(tmp_path, monkeypatch, value):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TORCHELASTIC_ERROR_FILE", raising=False)
    if value is not None:
        monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", value)
    with pytest.raises(LookupError):
        raises()
    assert not list(tmp_path.iterdir())


def test_record_and_exits(error_file):
    leave = record(sys.exit)
    assert leave(0) is None
    for code in (3, "words", None):
        with pytest.raises(SystemExit) as exited:
            leave(code)
        assert exited.value.code == code
    assert not error_file.exists()


def test_record_passes_on_the_file_of_a_child(error_file, tmp_path):
    child = failure(tmp_path, STRUCTURED, exitcode=-11)

    @record
    def launch():
        raise ChildFailedError("trainer", {0: child})

    with pytest.raises(ChildFailedError):
        launch()
    expected = json.loads(json.dumps(STRUCTURED))
    expected["message"]["errorCode"] = -11
    assert json.loads(error_file.read_text()) == expected


class Told(ErrorHandler):
    """Keeps what `record` calls, and with which name."""

    def __init__(self):
        self.calls = []

    def initialize(self):
        self.calls.append(f"begin {self._fn_name}")

    def record_exception(self, e):
        self.calls.append(f"{self._fn_name} raised {e}")

    def record_success(self):
        self.calls.append(f"{self._fn_name} returned")


def fail():
    raise ValueError("mine")


def return_one():
    return 1


def test_record_with_a_handler_of_ones_own():
    told = Told()
    with pytest.raises(ValueError, match="mine"):
        record(fail, told)()
    assert told.calls == ["begin fail", "fail raised mine"]


def test_record_tells_its_handler_of_a_success():
    told = Told()
    assert record(return_one, told)() == 1
    assert told.calls == ["begin return_one", "return_one returned"]
    told = Told()
    assert record(functools.partial(sys.exit, 0), told)() is None
    assert told.calls == ["begin None"]


def test_what_record_success_raises_is_no_failure_of_the_function():
    class Own(Told):
        def record_success(self):
            raise OSError("no such server")

    told = Own()
    with pytest.raises(OSError, match="no such server"):
        record(return_one, told)()
    assert told.calls == ["begin return_one"]


@pytest.mark.parametrize("broken", [False, True])
def test_a_handler_adds_to_the_report_of_a_signal(monkeypatch, caplog, broken):
    class Own(ErrorHandler):
        def maybe_enrich_signal_failure_message(self, message, error_file):
            if broken:
                raise LookupError("no such device")
            return f"{message}; {error_file}: a fault of the device"

    monkeypatch.setattr(errors, "get_error_handler", Own)
    text = str(ChildFailedError("t", {0: no_file(-6), 1: no_file(1, rank=1)}))
    said = "" if broken else "; <N/A>: a fault of the device"
    assert f"traceback : Signal 6 (SIGABRT) received by PID 997{said}\n" in text
    assert text.count("fault of the device") == (not broken)
    assert ("no such device" in caplog.text) == broken


def test_record_has_crashes_explained(tmp_path):
    script = write(
        tmp_path / "crash.py",
        """
        import ctypes
        from procession.elastic.errors import record

        @record
        def main():
            ctypes.string_at(0)

        main()
        """,
    )
    done = run_python(script)
    assert done.returncode == -signal.SIGSEGV
    assert "Segmentation fault" in done.stderr
    assert "in main" in done.stderr


# -- ErrorHandler


def test_get_error_handler():
    assert type(get_error_handler()) is ErrorHandler
    assert handler_of_handlers is get_error_handler


def test_dump_replaces_a_file_that_is_there(error_file, tmp_path):
    error_file.write_text("what stood there")
    child = write(tmp_path / "child.json", json.dumps(STRUCTURED))
    ErrorHandler().dump_error_file(str(child))
    assert json.loads(error_file.read_text()) == STRUCTURED
