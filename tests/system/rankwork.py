"""Functions that ranks import by name; nothing heavy is imported here."""

import os
import sys
import time


def double(x):
    return 2 * x


def whoami():
    return int(os.environ["RANK"])


def environment():
    return dict(os.environ)


def give(*args, **kwargs):
    return args, kwargs


class Scale:
    """Holds state, is callable, and has methods."""

    def __init__(self, by):
        self.by = by

    def __call__(self, x):
        return self.by * x

    def method(self, x):
        return self.by * x

    @classmethod
    def of_class(cls, x):
        return cls.__name__, x

    @staticmethod
    def static(x):
        return "static", x


class Refuses:
    """Does not let itself be pickled."""

    def __init__(self, text="not me"):
        self.text = text

    def __reduce__(self):
        raise TypeError(self.text)


class OnlyThere:
    """Pickles, but can only be unpickled in a rank."""

    def __init__(self, launcher):
        self.launcher = launcher

    def __reduce__(self):
        return _only_there, (self.launcher,)


def _only_there(launcher):
    if os.getpid() == launcher:
        raise LookupError("not in this process")
    return OnlyThere(launcher)


class Peculiar(Exception):
    """Pickles, and does not unpickle: its constructor wants two arguments."""

    def __init__(self, left, right):
        super().__init__(f"{left} and {right}")


class Mute(Exception):
    """Its text cannot be had."""

    def __str__(self):
        raise RuntimeError("no text today")


def fail_with(kind, *args):
    raise kind(*args)


def wait_for(path, seconds=20.0):
    """Wait in a rank until a file exists."""
    deadline = time.monotonic() + seconds
    while not os.path.exists(path):
        if time.monotonic() > deadline:
            sys.exit(f"{path} did not appear")
        time.sleep(0.001)
