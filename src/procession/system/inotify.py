"""The kernel's notification that files were written to: inotify(7)."""

from __future__ import annotations

import ctypes
import os

_IN_MODIFY = 0x2
_IN_Q_OVERFLOW = 0x4000
_IN_IGNORED = 0x8000
_EVENT = 16  # bytes: int wd, uint32 mask, cookie, length of a name that follows (none for files)

_libc = ctypes.CDLL(None, use_errno=True)


def _call(name: str, *args: object) -> int:
    result: int = getattr(_libc, name)(*args)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")
    return result


class Inotify:
    """Watches for writes to regular files.

    Its descriptor is non-blocking, closed on exec, and readable when a file was written to. OSError
    from the constructor and from `add` may mean that a limit of the user is reached (EMFILE,
    ENOSPC; fs.inotify.max_user_*): the caller should use a timer then.
    """

    def __init__(self) -> None:
        # It takes the flags of open(2).
        self._fd = _call("inotify_init1", os.O_NONBLOCK | os.O_CLOEXEC)

    def fileno(self) -> int:
        """Give the descriptor to wait for."""
        return self._fd

    def add(self, path: str | bytes | os.PathLike[str]) -> int:
        """Watch a file; gives a number, the same one for a file that is watched already."""
        name = os.fsencode(path)
        return _call("inotify_add_watch", self._fd, name, ctypes.c_uint32(_IN_MODIFY))

    def read(self) -> set[int] | None:
        """Give the files with news since the last time, by number; never waits.

        None: the kernel's queue has overflowed, any file may have news.
        """
        try:
            events = memoryview(os.read(self._fd, 4096 * _EVENT))
        except BlockingIOError:
            return set()
        news: set[int] = set()
        at = 0
        while at < len(events):
            wd, mask, _, name = events[at : at + _EVENT].cast("i")
            at += _EVENT + name
            if mask & _IN_Q_OVERFLOW:
                return None
            if not mask & _IN_IGNORED:
                news.add(wd)
        return news

    def close(self) -> None:
        """Close the descriptor; may be called again."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
