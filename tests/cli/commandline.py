"""The command in a process of its own: run to its end, watched on its way, or on a terminal."""

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import threading

import pytest

from support import PROCESSION, START_PATIENCE, until

# Becomes the command on the terminal that is its standard input, as a login shell would.
ON_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


def command(*words, timeout=40, text=True, **options):
    """Run `procession` with these words to its end, its output captured."""
    options.setdefault("stdin", subprocess.DEVNULL)
    if "input" in options:
        del options["stdin"]
    return subprocess.run(
        [*PROCESSION, *map(str, words)],
        capture_output=True,
        text=text,
        timeout=timeout,
        check=False,
        **options,
    )


def run(*words, **options):
    """Run `procession run` with these words to its end, its output captured."""
    return command("run", *words, **options)


def good(*words, **options):
    """Run `procession run`, which must succeed; gives its standard output."""
    done = run(*words, **options)
    assert done.returncode == 0, (done.stdout, done.stderr)
    return done.stdout


def only(directory):
    """Give the one run that left its directory here."""
    (path,) = directory.iterdir()
    return path


class Watched:
    """A command whose output is read while it runs.

    program: what the words belong to. out, err: what was read so far, bytes.
    """

    def __init__(self, *words, program=PROCESSION, stdin=subprocess.DEVNULL, **options):
        self.process = subprocess.Popen(
            [*program, *map(str, words)],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            **options,
        )
        self.pid = self.process.pid
        self.out, self.err = bytearray(), bytearray()
        self._threads = [
            threading.Thread(target=self._read, args=(stream, into))
            for stream, into in ((self.process.stdout, self.out), (self.process.stderr, self.err))
        ]
        for thread in self._threads:
            thread.start()

    def _read(self, stream, into):
        while block := os.read(stream.fileno(), 1 << 16):
            into += block

    def shows(self, *parts, patience=START_PATIENCE):
        """Wait until all of these stand on the console."""

        def look():
            reading = any(t.is_alive() for t in self._threads)
            ended = self.process.poll() is not None and not reading
            text = bytes(self.out) + b"\0" + bytes(self.err)  # after that: all, if it has ended
            if all(part in text for part in parts):
                return True
            if ended:
                pytest.fail(f"it ended ({self.process.returncode}) and said {text!r}")
            return False

        until(look, f"{parts} on the console", patience)

    def signal(self, number):
        os.kill(self.pid, number)

    def end(self, timeout=20):
        """Wait for the end of the command and of its output; gives the exit code."""
        code = self.process.wait(timeout)
        for thread in self._threads:
            thread.join(timeout)
        return code

    def __enter__(self):
        return self

    def __exit__(self, *_):
        _end(self.process)
        for thread in self._threads:
            thread.join()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()


class Terminal:
    """A command on a pseudo-terminal of its own.

    program: what the words belong to. screen: what came from it so far, bytes.
    """

    def __init__(self, *words, rows=50, columns=200, program=PROCESSION, **options):
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.screen = bytearray()
        self._stop, self._stopped = os.pipe()
        self.process = subprocess.Popen(
            [sys.executable, "-c", ON_TERMINAL, *map(str, (*program, *words))],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            **options,
        )
        self.pid = self.process.pid
        os.close(theirs)
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self):
        while True:
            ready, _, _ = select.select([self._ours, self._stop], [], [])
            if self._ours not in ready:
                return
            try:
                block = os.read(self._ours, 1 << 16)
            except OSError:  # nobody has it open any more
                return
            if not block:
                return
            self.screen += block

    def shows(self, *parts, patience=START_PATIENCE):
        """Wait until all of these have come to the screen."""

        def look():
            ended = self.process.poll() is not None and not self._thread.is_alive()
            if all(part in self.screen for part in parts):
                return True
            if ended:
                pytest.fail(f"it ended ({self.process.returncode}), on screen {self.screen!r}")
            return False

        until(look, f"{parts} on the terminal ({bytes(self.screen)!r})", patience)

    def type(self, text):
        os.write(self._ours, text)

    def end(self, timeout=20):
        """Wait for the end; gives the exit code."""
        code = self.process.wait(timeout)
        self._thread.join(timeout)
        return code

    @property
    def lines(self):
        return bytes(self.screen).replace(b"\r\n", b"\n").decode().splitlines()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        _end(self.process)
        os.close(self._stopped)
        self._thread.join()
        os.close(self._stop)
        os.close(self._ours)


def _end(process):
    if process.poll() is None:
        process.send_signal(signal.SIGKILL)
        process.wait()
