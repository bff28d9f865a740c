"""What a rank tells and what the launcher reads, over a channel within one process."""

import base64
import builtins
import contextlib
import json
import os
import pickle
import socket
import sys
import threading
import traceback

import pytest

from seams.prepare import OF_COMMAND, OF_FUNCTION, OF_SCRIPT, ResultReader, results
from seams.values import Command, Function, Module, RemoteError, Script
from seams.worker import (
    DONE,
    ERROR,
    FAILED,
    HEADER,
    VALUE,
    OutcomeChannel,
    describe,
    encoded,
    outcome,
)

GROUPS = pytest.mark.skipif(sys.version_info < (3, 11), reason="groups and notes are newer")

FUNCTION = Function(print)


def value_of(read):
    return results.value_of(FUNCTION, read.body) if read.kind == VALUE else None


def exception_of(record):
    return results.exception_of(FUNCTION, record)


def channel():
    """Give the launcher's socket and the rank's descriptor of a channel."""
    ours, theirs = socket.socketpair()
    return ours, theirs.detach()


@contextlib.contextmanager
def pipes():
    """Give the rank's end and the launcher's end of an outcome channel."""
    read_end, write_end = channel()
    reader = ResultReader(read_end, OF_FUNCTION)
    pipe = OutcomeChannel(write_end)
    try:
        yield pipe, reader
    finally:
        reader.close()
        pipe._close()


def told(tell):
    """Let a rank tell with `tell(pipe)` in a thread, and read until it has."""
    with pipes() as (pipe, reader):
        thread = threading.Thread(target=tell, args=(pipe,))
        thread.start()
        os.set_blocking(reader.fd, True)
        while not reader.ended:
            reader.read()
        thread.join()
        assert not reader.torn
        return reader.report


def rebuilt(error):
    """Raise an exception, describe it as a rank does, and rebuild it as a launcher does."""
    try:
        raise error
    except BaseException as e:
        record = describe(e, rebuildable=True)
    return exception_of(told(lambda pipe: pipe.error(record)).description)


def function_names(error):
    return [frame.name for frame in traceback.extract_tb(error.__traceback__)]


# On 3.10 the tests that need it are skipped.
ExceptionGroup = getattr(builtins, "ExceptionGroup", None)


class Plain(Exception):
    pass


class NeedsTwo(Exception):
    """Pickles, and does not unpickle."""

    def __init__(self, first, second):
        super().__init__(f"{first} and {second}")


class Wordy(Exception):
    """Unpickles, and has another text then."""

    def __init__(self, code):
        super().__init__(f"failed with {code}")
        self.code = code


class WithState(Exception):
    def __init__(self, text, detail):
        super().__init__(text, detail)
        self.detail = detail


class Falsy(Exception):
    def __bool__(self):
        return False


class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError("no text")


# -- values


@pytest.mark.parametrize("value", [None, 0, "text", b"", {"a": [1, (2.5,)]}, {1, 2}, Plain])
def test_a_value(value):
    read = told(lambda pipe: pipe.value(value))
    assert read.kind == VALUE
    assert read.good
    assert value_of(read) == value
    assert read.description == {}


def test_a_large_value():
    value = os.urandom(5_000_000)
    assert value_of(told(lambda pipe: pipe.value(value))) == value


def test_the_outcome_is_news_once():
    with pipes() as (pipe, reader):
        assert not reader.read()
        pipe.value(1)
        assert reader.read()
        assert value_of(reader.report) == 1
        assert not reader.read()
        assert reader.ended
        assert not reader.torn


def test_a_rank_tells_once():
    with pipes() as (pipe, reader):
        pipe.done()
        pipe.error({"kind": "raised"})
        assert reader.read()
        assert reader.report.kind == DONE
        assert not reader.torn


def test_who_reports_a_failure_waits_for_an_answer(monkeypatch):
    monkeypatch.setattr(outcome, "ANSWER_MS", 60_000)
    with pipes() as (pipe, reader):
        os.set_blocking(pipe._fd, False)  # as a program may have done
        pipe.failing("raised", "Plain")
        thread = threading.Thread(target=pipe.error, args=({"kind": "raised"},))
        thread.start()
        while reader.report is None or reader.report.kind != ERROR:
            reader.read()
        assert not reader.ended
        assert thread.is_alive()
        reader.answer()
        thread.join(30)
        assert not thread.is_alive()
        reader.read()
        assert reader.ended


def test_a_value_that_cannot_be_pickled():
    with pipes() as (pipe, reader):
        assert pipe.value(threading.Lock()) is False
        reader.read()
        read = reader.report
    assert not read.good
    assert read.description["kind"] == "unpicklable"
    assert read.description["type"] == "_thread.lock"
    assert read.description["message"].startswith("TypeError: cannot pickle")
    assert exception_of(read.description) is None


def test_a_forked_child_does_not_tell():
    with pipes() as (pipe, reader):
        pid = os.fork()
        if not pid:
            pipe.done()
            os._exit(0)
        os.waitpid(pid, 0)
        assert not reader.read()
        assert not reader.torn


def test_a_failure_is_known_before_it_is_described():
    with pipes() as (pipe, reader):
        pipe.failing("raised", "Plain")
        assert reader.read()
        assert not reader.report.good
        assert reader.report.description == {"kind": "raised", "type": "Plain", "code": 1}
        first = reader.report.at
        pipe.error({"kind": "raised", "type": "Plain", "message": "text"})
        assert reader.read()
        assert reader.report.description["message"] == "text"
        assert reader.report.at == first


def test_a_number_that_is_another_file_by_now_is_not_written_to(tmp_path):
    with pipes() as (pipe, reader):
        place = pipe._fd
        with open(tmp_path / "file", "wb") as file:
            os.dup2(file.fileno(), place)
        pipe.failing("raised", "Plain")
        pipe.error({"kind": "raised"})
        assert not reader.read()
        os.close(place)
    assert (tmp_path / "file").read_bytes() == b""


def test_a_described_failure_is_in_the_error_file_unless_there_is_one(tmp_path):
    path = tmp_path / "error.json"
    for text in ("first", "second"):
        read_end, write_end = channel()
        pipe = OutcomeChannel(write_end, str(path))
        try:
            raise Plain(text)
        except Plain as e:
            pipe.error(describe(e, rebuildable=False))
        read_end.close()
    said = json.loads(path.read_text())["message"]
    assert said["message"].endswith("Plain: first")
    assert "Traceback (most recent call last)" in said["extraInfo"]["py_callstack"]
    assert said["extraInfo"]["timestamp"].isdecimal()


# -- exceptions


def test_an_exception_with_its_traceback():
    def deep():
        raise ValueError("bad batch", 7)

    def shallow():
        deep()

    try:
        shallow()
    except ValueError as e:
        error = e
    again = rebuilt(error)
    assert type(again) is ValueError
    assert again.args == ("bad batch", 7)
    assert function_names(again)[-2:] == ["shallow", "deep"]
    last = traceback.extract_tb(again.__traceback__)[-1]
    assert last.filename == __file__
    assert last.line == 'raise ValueError("bad batch", 7)'


def test_an_interruption_is_told_apart():
    with pytest.raises(KeyboardInterrupt) as raised:
        raise KeyboardInterrupt
    assert describe(raised.value, rebuildable=True)["kind"] == "interrupted"


def test_frames_of_the_bootstrap_are_left_out():
    source = "def run(call):\n    call()\n"
    scope = {}
    ours = os.path.join(os.path.dirname(outcome.__file__), "bootstrap.py")
    exec(compile(source, ours, "exec"), scope)

    def users():
        raise Plain

    def launch():
        scope["run"](users)

    try:
        launch()
    except Plain as e:
        e.__traceback__ = e.__traceback__.tb_next.tb_next  # from `run` on, as in a rank
        record = describe(e, rebuildable=True)
    assert function_names(exception_of(record)) == ["users"]
    assert "bootstrap" not in record["traceback"]


def test_state_and_class_come_back():
    again = rebuilt(WithState("text", {"a": 1}))
    assert type(again) is WithState
    assert again.detail == {"a": 1}


def test_a_chain_that_was_raised():
    def chain():
        try:
            try:
                {}["missing"]
            except KeyError:
                raise ValueError("second")  # noqa: B904 - the context is meant
        except ValueError as e:
            raise Plain("third") from e

    try:
        chain()
    except Plain as e:
        again = rebuilt(e)
    assert function_names(again.__cause__) == ["chain"]
    assert type(again.__cause__.__context__) is KeyError
    assert again.__cause__.__suppress_context__ is False
    text = "".join(traceback.format_exception(again))
    assert "The above exception was the direct cause" in text
    assert "During handling of the above exception" in text


def test_a_suppressed_context():
    def hide():
        try:
            {}["missing"]
        except KeyError:
            raise Plain("shown") from None

    try:
        hide()
    except Plain as e:
        again = rebuilt(e)
    assert again.__cause__ is None
    assert again.__suppress_context__
    assert "KeyError" not in "".join(traceback.format_exception(again))


def test_a_chain_that_bites_its_tail():
    first, second = Plain("first"), Plain("second")
    first.__cause__, second.__cause__ = second, first
    again = rebuilt(first)
    assert str(again.__cause__) == "second"
    assert again.__cause__.__cause__ is None


def test_a_deep_recursion_stays_what_it_is():
    def endless(n):
        return endless(n + 1)

    try:
        endless(0)
    except RecursionError as e:
        again = rebuilt(e)
    assert type(again) is RecursionError
    assert "endless" in function_names(again)


@GROUPS
def test_notes():
    error = Plain("text")
    error.add_note("first")
    error.add_note("second")
    assert rebuilt(error).__notes__ == ["first", "second"]


@GROUPS
def test_a_group():
    def member(error):
        try:
            raise error
        except Exception as e:
            return e

    group = ExceptionGroup("both", [member(ValueError("a")), member(Plain("b"))])
    again = rebuilt(group)
    assert type(again) is ExceptionGroup
    assert [type(e) for e in again.exceptions] == [ValueError, Plain]
    assert [function_names(e) for e in again.exceptions] == [["member"], ["member"]]


# -- exceptions that cannot be rebuilt


def test_a_class_that_does_not_unpickle():
    again = rebuilt(NeedsTwo(1, 2))
    assert type(again) is NeedsTwo
    assert str(again) == "1 and 2"
    assert function_names(again) == ["rebuilt"]


def test_a_class_that_unpickles_to_something_else():
    again = rebuilt(Wordy(3))
    assert type(again) is Wordy
    assert str(again) == "failed with 3"
    assert again.code == 3


def test_a_class_that_does_not_pickle(monkeypatch):
    monkeypatch.setitem(sys.modules, "cloudpickle", None)  # in a rank it is seldom there

    class Local(Exception):
        pass

    again = rebuilt(Local("text"))
    assert type(again) is RemoteError
    assert again.message == "text"


def test_what_an_exception_carries_does_not_pickle():
    assert type(rebuilt(Plain(threading.Lock()))) is RemoteError


def test_an_exception_without_text():
    try:
        raise Unprintable
    except Unprintable as e:
        record = describe(e, rebuildable=True)
    assert record["message"] == "<its text cannot be had: RuntimeError>"
    assert type(exception_of(record)) is Unprintable


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"type": "T"},
        {"type": "T", "message": "m", "frames": 5, "suppress": False},
        {"x": [1]},
        7,
    ],
)
def test_garbage_in_a_description(parts):
    error = exception_of({"type": "T", "message": "m", "exceptions": [parts]})
    assert type(error) is RemoteError
    assert str(error) == "T: m"


# -- what may go wrong on the pipe


def frame(kind, body, length=None):
    return HEADER.pack(kind, len(body) if length is None else length, 123) + body


def read_after(written, may=OF_FUNCTION):
    """Read a channel on which this was written before it was closed."""
    read_end, write_end = channel()
    reader = ResultReader(read_end, may)
    try:
        os.write(write_end, written)
        os.close(write_end)
        reader.read()
        return reader.report, reader.torn, reader.ended, bool(reader.refused)
    finally:
        reader.close()


def test_nothing_told():
    assert read_after(b"") == (None, False, True, False)


@pytest.mark.parametrize("kind", [DONE, VALUE, ERROR])
def test_a_frame_that_is_torn_at_any_byte(kind):
    whole = frame(kind, b"" if kind == DONE else b"some body")
    for cut in range(1, len(whole)):
        assert read_after(whole[:cut]) == (None, True, True, False), cut
    read, torn, _, _ = read_after(whole)
    assert (read.kind, read.at, torn) == (kind, 123, False)


def test_a_frame_may_come_in_pieces():
    whole = frame(VALUE, b"body")
    read_end, write_end = channel()
    reader = ResultReader(read_end, OF_FUNCTION)
    for i in range(len(whole)):
        assert not reader.read()
        assert reader.torn == (i > 0)
        os.write(write_end, whole[i : i + 1])
    assert reader.read()
    assert reader.report.body == b"body"
    assert not reader.torn
    os.close(write_end)
    reader.close()


@pytest.mark.parametrize("garbage", [b"X" * 100, b"\0" * 17, b"hello, this is no frame at all"])
def test_garbage_is_not_believed(garbage):
    assert read_after(garbage) == (None, False, True, True)


@pytest.mark.parametrize("length", [2**60, 2**63, 2**64 - 1])
@pytest.mark.parametrize("kind", [VALUE, ERROR])
def test_a_length_that_cannot_be_is_refused_before_its_body_comes(kind, length):
    assert read_after(frame(kind, b"x", length=length)) == (None, False, True, True)


FUNCTIONS_ALONE = [(OF_SCRIPT, frame(VALUE, b"")), (OF_SCRIPT, frame(ERROR, b"", length=5 << 20))]
NOBODY = [
    (may, body)
    for may in (OF_FUNCTION, OF_SCRIPT)
    for body in (
        frame(DONE, b"x"),
        frame(b"A", b""),
        frame(FAILED, b"", length=1 << 20),
        frame(FAILED, b"raised\0001\0T") + frame(DONE, b""),
        frame(FAILED, b"raised\0001\0T") + frame(VALUE, b"v"),
    )
]


@pytest.mark.parametrize(
    ("may", "written"),
    [*FUNCTIONS_ALONE, *NOBODY, (OF_COMMAND, frame(DONE, b"")), (OF_COMMAND, frame(ERROR, b"{}"))],
)
def test_what_a_kind_of_program_may_not_tell(may, written):
    read, torn, ended, refused = read_after(written + frame(DONE, b""), may)
    assert (torn, ended, refused) == (False, True, True)
    if read is not None:
        assert read.kind == FAILED


@pytest.mark.parametrize(
    "written", [frame(DONE, b""), frame(ERROR, b"{}"), frame(FAILED, b"exit\0003\0SystemExit")]
)
def test_what_a_script_may_tell(written):
    read, torn, _, refused = read_after(written, OF_SCRIPT)
    assert (read.kind, torn, refused) == (written[:1], False, False)


class Trap:
    def __reduce__(self):
        return pytest.fail, ("a pickle was loaded",)


@pytest.mark.parametrize("program", [Script("x.py"), Module("x"), Command(("x",))])
def test_no_pickle_of_another_program_than_a_function_is_loaded(program):
    body = pickle.dumps(Trap())
    assert results.value_of(program, body) is None
    parts = {"type": "T", "message": "", "pickle": base64.b64encode(body).decode(), "frames": []}
    parts |= {"cause": None, "context": None, "suppress": False}
    assert results.exception_of(program, {"exceptions": [parts]}) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [("kind", ["raised"]), ("type", {}), ("message", 5), ("traceback", None), ("code", "3"),
     ("code", 256), ("code", -1), ("code", True), ("errno", 1e9), ("errno", -1)],
)  # fmt: skip
def test_a_field_of_an_error_that_cannot_be_is_left_out(name, value):
    written = frame(ERROR, json.dumps({"kind": "raised", name: value}).encode())
    read, _, _, refused = read_after(written, OF_SCRIPT)
    assert not refused
    assert name not in read.description


@pytest.mark.parametrize("text", ["x" * 20_000_000, "\U0001f600" * 1_000_000])
def test_an_error_with_a_text_that_is_too_long_is_told_with_less_of_it(text):
    body = encoded({"kind": "raised", "type": "T", "message": text, "traceback": text})
    read, _, _, refused = read_in_a_thread(frame(ERROR, body), OF_SCRIPT)
    assert not refused
    assert read.description["type"] == "T"
    for name in ("message", "traceback"):
        assert read.description[name].startswith(text[:1000])
        assert read.description[name].endswith(text[-1000:])
        assert "characters are left out" in read.description[name]


def read_in_a_thread(written, may):
    """Read what is more than a channel holds."""
    read_end, write_end = channel()
    reader = ResultReader(read_end, may)

    def write():
        with open(write_end, "wb") as f:
            f.write(written)

    thread = threading.Thread(target=write)
    thread.start()
    while not reader.ended:
        reader.read()
    thread.join()
    reader.close()
    return reader.report, reader.torn, reader.ended, reader.refused


@pytest.mark.parametrize("body", [b"", b"{", b"[1]", b"5", b"\xff\xfe", b"null"])
def test_an_error_that_is_no_record(body):
    read, _, _, _ = read_after(frame(ERROR, body))
    assert not read.good
    assert read.description == {}


@GROUPS
def test_a_member_of_a_group_that_is_false_has_its_traceback():
    try:
        raise Falsy("first")
    except Falsy as e:
        member = e
    again = rebuilt(ExceptionGroup("both", [member, Plain("second")]))
    assert [type(e) for e in again.exceptions] == [Falsy, Plain]
    assert again.exceptions[0].__traceback__ is not None
