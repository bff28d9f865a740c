"""What is read of the files of ranks."""

import json
import os

import pytest

from seams.output import open_regular, read_error_file


def error_file(path, data):
    path.write_text(json.dumps(data))
    return read_error_file(str(path))


def test_error_files(tmp_path):
    path = tmp_path / "error.json"
    long = {"message": "ValueError: x", "extraInfo": {"py_callstack": "Traceback…", "t": "1"}}
    assert error_file(path, {"message": long}) == "Traceback…"
    assert error_file(path, {"message": {"message": "ValueError: x"}}) == "ValueError: x"
    assert error_file(path, {"message": "text", "timestamp": 5}) == "text"
    for garbage in ({}, [], 5, None, {"message": 5}, {"message": {"message": [1]}}):
        assert error_file(path, garbage) == ""
    path.write_text('{"message": "torn')
    assert read_error_file(str(path)) == ""
    assert read_error_file(str(tmp_path / "none")) == ""


def test_only_regular_files_are_opened(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    (tmp_path / "file").write_text("text")
    for name in ("fifo", "link", "."):
        with pytest.raises(OSError, match=r"."):
            open_regular(str(tmp_path / name))
    with open_regular(str(tmp_path / "file")) as f:
        assert f.read() == b"text"
