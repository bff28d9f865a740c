"""What a rank tells and what the launcher reads, over a channel within one process."""

import contextlib
import fcntl
import json
import os
import socket
import threading
import time
import traceback
from unittest.mock import Mock

import pytest

from outcomes import Reader
from seams.agent import Channel
from seams.prepare import OF_COMMAND, OF_FUNCTION, OF_SCRIPT, results
from seams.values import Function
from seams.worker import (
    DONE,
    ERROR,
    FAILED,
    HEADER,
    VALUE,
    OutcomeChannel,
    describe,
    outcome,
)

FUNCTION = Function(print)


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
    reader = Reader(read_end, OF_FUNCTION)
    pipe = OutcomeChannel(write_end)
    try:
        yield pipe, reader
    finally:
        reader.close()
        pipe._close()


def rebuilt(error):
    """Raise an exception, describe it as a rank does, and rebuild it as a launcher does."""
    try:
        raise error
    except BaseException as e:
        return exception_of(describe(e, rebuildable=True))


class Plain(Exception):
    pass


class NeedsTwo(Exception):
    """Pickles, and does not unpickle."""

    def __init__(self, first, second):
        super().__init__(f"{first} and {second}")


# -- the conversation


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


def test_a_deep_recursion_stays_what_it_is():
    def endless(n):
        return endless(n + 1)

    try:
        endless(0)
    except RecursionError as e:
        again = rebuilt(e)
    assert type(again) is RecursionError
    assert "endless" in {frame.name for frame in traceback.extract_tb(again.__traceback__)}


# -- exceptions that cannot be rebuilt


def test_a_class_that_does_not_unpickle():
    again = rebuilt(NeedsTwo(1, 2))
    assert type(again) is NeedsTwo
    assert str(again) == "1 and 2"


# -- what may go wrong on the pipe


def frame(kind, body, length=None):
    return HEADER.pack(kind, len(body) if length is None else length, 123) + body


def read_after(written, may=OF_FUNCTION):
    """Read a channel on which this was written before it was closed."""
    read_end, write_end = channel()
    reader = Reader(read_end, may)
    try:
        os.write(write_end, written)
        os.close(write_end)
        reader.read()
        return reader.report, reader.torn, reader.ended, bool(reader.refused)
    finally:
        reader.close()


@pytest.mark.parametrize("kind", [DONE, VALUE, ERROR])
def test_a_frame_that_is_torn_at_any_byte(kind):
    whole = frame(kind, b"" if kind == DONE else b"some body")
    for cut in range(1, len(whole)):
        assert read_after(whole[:cut]) == (None, True, True, False), cut
    read, torn, _, _ = read_after(whole)
    assert (read.kind, read.at, torn) == (kind, 123, False)


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


BIG = os.urandom(200_000)


def a_file(size, body=BIG, *, seals=True, kind=b"v"):
    """Send the header of a frame whose body is in a memory file, and that file."""
    fd = os.memfd_create("value", os.MFD_ALLOW_SEALING)
    os.write(fd, body)
    if seals:
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, outcome.SEALS)
    return HEADER.pack(kind, size, 123), fd


def read_file(header, fd, may=OF_FUNCTION):
    read_end, write_end = channel()
    reader = Reader(read_end, may)
    with socket.socket(fileno=write_end) as sock:
        socket.send_fds(sock, [header], [] if fd < 0 else [fd])
    if fd >= 0:
        os.close(fd)
    try:
        reader.read()
        return reader.report, reader.fault, reader.refused
    finally:
        reader.close()


@pytest.mark.parametrize("limited", [False, True])
def test_a_large_value_is_the_same_in_a_file_and_behind_its_header(monkeypatch, limited):
    """Where there may be no file of that size, it comes over the channel, a part at a time."""
    if limited:
        monkeypatch.setattr(outcome, "SEALS", -1)
    value = os.urandom(3_000_000)
    with pipes() as (pipe, reader):
        thread = threading.Thread(target=pipe.value, args=(value,))
        thread.start()
        while reader.report is None:
            reader.read()
        thread.join(30)
        assert results.value_of(FUNCTION, reader.report.body) == value


def test_what_is_wrong_with_a_memory_file_is_said():
    report, fault, refused = read_file(*a_file(len(BIG)))
    assert bytes(report.body) == BIG
    before = os.listdir("/proc/self/fd")
    for wrong in (
        a_file(len(BIG) + 1),
        a_file(len(BIG), seals=False),
        (HEADER.pack(b"v", 1, 1), os.open(os.devnull, os.O_RDONLY)),
        (HEADER.pack(b"v", 1, 1), os.open("/", os.O_RDONLY)),
    ):
        report, fault, refused = read_file(*wrong)
        assert (report, refused) == (None, "")
        assert fault.startswith("its memory file cannot be read")
    assert os.listdir("/proc/self/fd") == before
    assert "a file that did not come" in read_file(HEADER.pack(b"v", 9, 1), -1)[2]
    assert "only functions may" in read_file(*a_file(len(BIG)), OF_SCRIPT)[2]


def test_who_takes_a_very_large_value_does_other_things_meanwhile():
    """A node process would be silent for longer than its lease, where others keep the cores."""
    fd = os.memfd_create("value", os.MFD_ALLOW_SEALING)
    os.truncate(fd, 1 << 30)  # it takes no memory
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, outcome.SEALS)
    frames, began = results.Frames(), time.process_time()
    frames.take_file(outcome.VALUE, 1, 1 << 30, fd)
    assert time.process_time() - began < 0.05
    assert frames.report.holds_value
    assert len(frames.report.body) == 1 << 30


@pytest.mark.parametrize("text", ["x" * 20_000_000, "\U0001f600" * 1_000_000])
def test_of_a_text_that_is_too_long_both_ends_are_told(text):
    record = describe(ValueError(text), rebuildable=False)
    assert len(json.dumps(record)) < OF_SCRIPT["largest"][ERROR]
    assert record["message"].startswith(text[:1000])
    for name in ("message", "traceback"):
        assert record[name].rstrip().endswith(text[-1000:])
        assert "characters are left out" in record[name]


def test_what_a_process_of_a_dead_rank_goes_on_writing_is_not_read_for_ever():
    endless = Mock(recvmsg=Mock(return_value=(b"x", [], 0, None)))
    assert not Channel(endless, 0, {"largest": {}, "pickles": False}, Mock()).read(whole=True)
