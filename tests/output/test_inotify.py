import ctypes
import errno
import os
import select

import pytest

from seams.system import Inotify, inotify


@pytest.fixture
def watcher():
    watcher = Inotify()
    yield watcher
    watcher.close()
    watcher.close()


def readable(watcher, timeout=0):
    return bool(select.select([watcher], [], [], timeout)[0])


def test_news(watcher, tmp_path):
    paths = [tmp_path / name for name in ("a", "b", "c")]
    files = [open(path, "wb", buffering=0) for path in paths]  # noqa: SIM115
    a, b, _ = (watcher.add(path) for path in paths)
    assert not readable(watcher)
    assert watcher.read() == set()
    for _ in range(10):
        files[0].write(b"x")
        files[1].write(b"y")
    assert readable(watcher, 5)
    assert watcher.read() == {a, b}
    assert watcher.add(paths[0]) == a
    watcher.remove(a)
    files[0].write(b"x")
    assert watcher.read() == set()
    watcher.remove(a)
    os.truncate(paths[1], 0)
    assert watcher.read() == {b}
    for file in files:
        file.close()


def test_overflow(watcher, monkeypatch):
    overflow = b"\xff\xff\xff\xff\x00\x40\0\0" + b"\0" * 8
    monkeypatch.setattr(os, "read", lambda *_: overflow)
    assert watcher.read() is None


def test_missing_file(watcher, tmp_path):
    with pytest.raises(FileNotFoundError, match="missing"):
        watcher.add(tmp_path / "missing")


class Refusing:
    """A libc that is at a limit."""

    def __init__(self, code):
        self.code = code

    def __getattr__(self, name):
        def call(*_):
            ctypes.set_errno(self.code)
            return -1

        return call


def test_limits_are_explained(watcher, monkeypatch, tmp_path):
    monkeypatch.setattr(inotify, "_libc", Refusing(errno.EMFILE))
    with pytest.raises(OSError, match="max_user_instances") as caught:
        Inotify()
    assert caught.value.errno == errno.EMFILE
    monkeypatch.setattr(inotify, "_libc", Refusing(errno.ENOSPC))
    with pytest.raises(OSError, match="max_user_watches"):
        watcher.add(tmp_path)
