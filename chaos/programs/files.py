"""Ranks that leave something else than an error file; a module that ranks import."""

from __future__ import annotations

import json
import os
import time

KINDS = (
    *("torn", "empty", "huge", "no JSON", "other JSON", "deep JSON", "binary"),
    *("a directory", "a FIFO", "a link to a file", "a link to a FIFO", "a link to a device"),
    *("a link to itself", "a hard link", "not readable", "none", "good"),
)
MESSAGE = "of another file"


def leave(kind: str, loser: int, work: str, way: str) -> None:
    """Leave such a file, and fail, as rank `loser`."""
    if int(os.environ["RANK"]) != loser:
        time.sleep(100)
    path = os.environ["TORCHELASTIC_ERROR_FILE"]
    make(kind, path, work)
    with open(f"{work}/struck", "w", encoding="ascii") as f:
        f.write(str(time.monotonic()))
    if way == "raise":
        raise ArithmeticError("on purpose")
    os._exit(3)


def make(kind: str, path: str, work: str) -> None:
    """Make it."""
    other = f"{work}/other"
    texts = {
        "torn": '{"message": {"message": "torn',
        "empty": "",
        "no JSON": "this is no JSON",
        "other JSON": '[{"message": 5}]',
        "deep JSON": "[" * 200_000,
        "good": json.dumps({"message": {"message": "a good one", "extraInfo": {}}}),
    }
    if kind in texts:
        _write(path, texts[kind])
    elif kind == "huge":
        _write(path, "")
        os.truncate(path, 1 << 30)
    elif kind == "binary":
        with open(path, "wb") as f:
            f.write(os.urandom(10_000))
    elif kind == "a directory":
        os.mkdir(path)
    elif kind == "a FIFO":
        os.mkfifo(path)
    elif kind == "not readable":
        _write(path, "{}")
        os.chmod(path, 0)
    elif kind == "a link to a FIFO":
        os.mkfifo(other)
        os.symlink(other, path)
    elif kind == "a link to a device":
        os.symlink("/dev/zero", path)
    elif kind == "a link to itself":
        os.symlink(path, path)
    elif kind != "none":
        _write(other, json.dumps({"message": MESSAGE}))
        (os.link if kind == "a hard link" else os.symlink)(other, path)


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
