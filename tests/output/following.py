"""The other side of a console, and ranks that are nothing but descriptors."""

import contextlib
import os
import pty
import select
import tty
from unittest import mock

from seams.output import Console, Feed, Follower, Source
from support import until


class Viewer:
    """Reads what was written to a console: a pipe or the master side of a terminal."""

    def __init__(self, fd):
        self.fd = fd
        self.seen = b""
        os.set_blocking(fd, False)

    def look(self):
        try:
            while block := os.read(self.fd, 1 << 16):
                self.seen += block
        except OSError:
            pass
        return self.seen

    def begun(self):
        """Wait until something was written, and read nothing of it."""
        until(lambda: select.select([self.fd], [], [], 0)[0], "a first write to the console")

    def until(self, text):
        until(lambda: text in self.look(), f"{text!r} in {self.seen[-200:]!r}")
        return self.seen


@contextlib.contextmanager
def viewed(read_end, write_end):
    """Give a console, and who looks at it."""
    with os.fdopen(write_end, "w") as stream:
        console = Console(stream)
        try:
            yield console, Viewer(read_end)
        finally:
            console.close()
            os.close(read_end)


def piped():
    """Give a console that leads to a pipe, and who looks at it."""
    return viewed(*os.pipe())


def terminal(raw=True):
    """Give a console that is a terminal, and who looks at it."""
    master, slave = pty.openpty()
    if raw:
        tty.setraw(slave)
    return viewed(master, slave)


@contextlib.contextmanager
def following(stdout, stderr=None, **times):
    with contextlib.ExitStack() as stack:
        for name, seconds in times.items():
            stack.enter_context(mock.patch.object(Feed, name, seconds))
        follower = Follower(stdout, stderr or stdout)
        stack.callback(follower.close)
        yield follower


class Rank:
    """The writing end of a source."""

    def __init__(self, follower, rank=0, stream="out", file=None, **options):
        options.setdefault("prefix", b"[%d] " % rank)
        source = Source(rank, stream, **options)
        if file is None:
            r, self.fd = os.pipe()
            follower.add_pipe(r, source)
        else:
            self.fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            follower.add_file(file, source)

    def write(self, text):
        while text:
            text = text[os.write(self.fd, text) :]

    def close(self):
        os.close(self.fd)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
