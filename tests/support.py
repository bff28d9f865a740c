"""What tests with real processes share: conditions with deadlines, scripts, launchers."""

import importlib.util
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

import procession
from conftest import START_PATIENCE, alive, descriptors, marked, until

PYTHON = sys.executable
# Where the start method rarely matters: the default always, the others with what takes long.
METHODS = (
    "forkserver",
    pytest.param("spawn", marks=pytest.mark.long),
    pytest.param("fork", marks=pytest.mark.long),
)
PROCESSION = (str(Path(PYTHON).with_name("procession")),)  # what people type: it is installed
QUICK = procession.Stop(grace=0.3, linger=0.2)
OBEDIENT = procession.Stop(grace=20)  # for ranks that go at once: a test that needs it all is late


def require(*modules):
    """Skip a test, or a module of tests, where one of these is not installed.

    They are not imported: a test process that holds torch makes each fork behind it slow.
    """
    for name in modules:
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed", allow_module_level=True)


def write(path, source):
    """Write a program, its indentation taken off; gives its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(source).lstrip("\n"))
    return path


def run_program(*argv, timeout=40, text=True, **options):
    """Run a program to its end, its output captured as text. It reads nothing but `input`."""
    if "input" not in options:
        options.setdefault("stdin", subprocess.DEVNULL)
    return subprocess.run(
        [*map(str, argv)], capture_output=True, text=text, timeout=timeout, check=False, **options
    )


def run_python(*argv, timeout=30, **options):
    """Run this interpreter to its end, its output captured as text."""
    return run_program(PYTHON, *argv, timeout=timeout, **options)


def run_procession(*words, timeout=30, **options):
    """Run the command to its end, its output captured as text."""
    return run_program(*PROCESSION, *words, timeout=timeout, **options)


def uncoded(text):
    """Give messages without the code at the end of a line."""
    return re.sub(r" \[P\d{3}\]$", "", text, flags=re.MULTILINE)


def failure_of(program, kind=procession.GroupFailed, **options):
    """Run a group that must fail; gives what was raised."""
    with pytest.raises(kind) as caught:
        procession.run(program, **options)
    assert type(caught.value) is kind, caught.value
    return caught.value


def shell(text):
    return ["sh", "-c", text]


def gone(pids):
    """Wait until none of these processes runs."""
    pids = list(pids)
    until(lambda: not any(alive(p) for p in pids), f"the end of {pids}")


def reader_of(file):
    """Give a function that returns whether the words of a file are complete, as integers."""

    def read():
        try:
            text = file.read_text()
        except OSError:
            return None
        return [int(w) for w in text.split()] if text.endswith("\n") else None

    return read


# For a script: `say_when_in(names)` says "waits" when its first thread is in all these functions.
# An interrupt that comes earlier hits the script, and not what is to be tested.
SAY_WHEN_IN = """
import sys, threading, time

def say_when_in(*wanted):
    main = threading.main_thread().ident

    def look():
        found = set()
        while not found.issuperset(wanted):
            time.sleep(0.001)
            frame, found = sys._current_frames()[main], set()
            while frame:
                found.add(frame.f_code.co_name)
                frame = frame.f_back
        print("waits", flush=True)

    threading.Thread(target=look).start()
"""


class Running:
    """A process of which threads read all that it shows. process: it."""

    def _begin(self, process, *readers):
        self.process, self.pid = process, process.pid
        self._threads = [threading.Thread(target=reader) for reader in readers]
        for thread in self._threads:
            thread.start()

    def is_over(self):
        """Tell whether it has ended, and all has been read."""
        return self.process.poll() is not None and not any(t.is_alive() for t in self._threads)

    def signal(self, number):
        os.kill(self.pid, number)

    def end(self, timeout=20):
        """Wait for its end and that of its output; gives the exit code, negative for a signal."""
        code = self.process.wait(timeout)
        for thread in self._threads:
            thread.join(timeout)
        return code

    def __enter__(self):
        return self


class Launcher(Running):
    """A script in a process of its own that prints what it did, line by line."""

    def __init__(self, script, *args, **options):
        self.lines = []
        process = subprocess.Popen(
            [PYTHON, "-u", str(script), *map(str, args)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            **options,
        )
        self._begin(process, self._read)

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))

    def said(self, word):
        """Wait for a line that begins with this word; gives the rest of it."""

        def look():
            ended = self.is_over()
            for line in list(self.lines):  # after that: all are there if it has ended
                first, _, rest = line.partition(" ")
                if first == word:
                    return rest or True
            if ended:
                pytest.fail(f"the launcher ended ({self.process.returncode}): {self.lines}")
            return None

        return until(look, f"the launcher's {word!r}", START_PATIENCE)

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.signal(signal.SIGKILL)
        self.end()
        self.process.stdout.close()


__all__ = [
    "METHODS",
    "OBEDIENT",
    "PROCESSION",
    "PYTHON",
    "QUICK",
    "SAY_WHEN_IN",
    "START_PATIENCE",
    "Launcher",
    "Running",
    "alive",
    "descriptors",
    "failure_of",
    "gone",
    "marked",
    "reader_of",
    "require",
    "run_procession",
    "run_program",
    "run_python",
    "shell",
    "until",
    "write",
]
