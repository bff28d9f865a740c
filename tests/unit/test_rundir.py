"""What is read of the files of ranks."""

import json
import os

from seams.output import read_error_file


def error_file(path, data):
    path.write_text(json.dumps(data))
    return read_error_file(str(path))[0]


def test_error_files(tmp_path):
    path = tmp_path / "error.json"
    long = {"message": "ValueError: x", "extraInfo": {"py_callstack": "Traceback…", "t": "1"}}
    assert error_file(path, {"message": long}) == "Traceback…"
    assert error_file(path, {"message": {"message": "ValueError: x"}}) == "ValueError: x"
    assert error_file(path, {"message": "text", "timestamp": 5}) == "text"
    for garbage in ({}, [], 5, None, {"message": 5}, {"message": {"message": [1]}}):
        assert error_file(path, garbage) == ""
    assert read_error_file(str(tmp_path / "none")) == ("", "")


def ignored(path):
    text, why = read_error_file(str(path))
    assert text == ""
    return why


def test_error_files_that_are_ignored(tmp_path):
    path = tmp_path / "error.json"
    for text in ("", '{"message": "torn', "\0" * 10, "[" * 100_000):
        path.write_text(text)
        assert ignored(path) == "it holds no JSON"
    path.write_text("{}")
    assert ignored(path) == "it holds no message"
    os.truncate(path, 1 << 30)
    assert ignored(path) == "it is larger than 16 MiB"
    os.mkfifo(tmp_path / "fifo")
    assert ignored(tmp_path / "fifo") == "it is no regular file"
    assert ignored(tmp_path) == "it is no regular file"
    path.write_text('{"message": "of somebody else"}')
    (tmp_path / "link").symlink_to(path)
    assert ignored(tmp_path / "link") == "it is a link"
