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

import pytest

from support import PROCESSION, START_PATIENCE, Running, run_program, until

KEY = {"PROCESSION_JOB_KEY": "0123456789abcdef-of-this-test"}
PATIENCE = 100  # seconds: several interpreters start on a busy machine
# Counts steps, and keeps the count; each line of the log is one step that counts.
STEPS = """
import os, sys, time

rank, size = int(os.environ["RANK"]), os.environ["WORLD_SIZE"]
log, checkpoint, last = sys.argv[1], sys.argv[1] + ".step", int([*sys.argv, 0][2])
step = int(open(checkpoint).read()) if os.path.exists(checkpoint) else 0
print(f"rank {rank} of {size} from step {step > 0}, {os.environ['TORCHELASTIC_RESTART_COUNT']}",
      flush=True)
while step < last or os.path.exists(sys.argv[1] + ".hold"):
    step += 1
    if rank == 0:
        with open(checkpoint + ".new", "w") as f:
            f.write(str(step))
        with open(log, "a") as f:  # one write, before the step counts
            f.write(f"{step} {size}\\n")
        os.replace(checkpoint + ".new", checkpoint)
    time.sleep(0.01)
"""
# Becomes the command on the terminal that is its standard input, as a login shell would.
ON_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


def command(*words, **options):
    """Run `procession` with these words to its end, its output captured."""
    return run_program(*PROCESSION, *words, **options)


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


class _Seen(Running):
    """A command that shows something. text: gives what was read so far, bytes."""

    def shows(self, *parts, patience=START_PATIENCE):
        """Wait until all of these have been shown."""

        def look():
            ended = self.is_over()
            text = self.text()  # after that: all, if it has ended
            if all(part in text for part in parts):
                return True
            if ended:
                pytest.fail(f"it ended ({self.process.returncode}) and showed {text!r}")
            return False

        until(look, f"{parts} to be shown", patience)


class Watched(_Seen):
    """A command whose output is read while it runs.

    program: what the words belong to. out, err: what was read so far, bytes.
    """

    def __init__(self, *words, program=PROCESSION, stdin=subprocess.DEVNULL, **options):
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = subprocess.Popen([*program, *map(str, words)], stdin=stdin, **pipes, **options)
        self.out, self.err = bytearray(), bytearray()
        self._begin(
            process,
            lambda: self._read(process.stdout, self.out),
            lambda: self._read(process.stderr, self.err),
        )

    def _read(self, stream, into):
        while block := os.read(stream.fileno(), 1 << 16):
            into += block

    def text(self):
        return bytes(self.out) + b"\0" + bytes(self.err)

    def __exit__(self, *_):
        _end(self.process)
        for thread in self._threads:
            thread.join()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()


class Terminal(_Seen):
    """A command on a pseudo-terminal of its own.

    program: what the words belong to. screen: what came from it so far, bytes.
    """

    def __init__(self, *words, rows=50, columns=200, program=PROCESSION, **options):
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.screen = bytearray()
        self._stop, self._stopped = os.pipe()
        process = subprocess.Popen(
            [sys.executable, "-c", ON_TERMINAL, *map(str, (*program, *words))],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            **options,
        )
        os.close(theirs)
        self._begin(process, self._read)

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

    def text(self):
        return bytes(self.screen)

    def type(self, text):
        os.write(self._ours, text)

    def edits(self):
        """Tell whether a line is edited: else Ctrl-D is the terminal's own."""
        return not termios.tcgetattr(self._ours)[3] & termios.ICANON

    def resize(self, rows, columns):
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    @property
    def lines(self):
        return self.text().replace(b"\r\n", b"\n").decode().splitlines()

    def __exit__(self, *_):
        _end(self.process)
        os.close(self._stopped)
        for thread in self._threads:
            thread.join()
        os.close(self._stop)
        os.close(self._ours)


def _end(process):
    if process.poll() is None:
        process.send_signal(signal.SIGKILL)
        process.wait()
