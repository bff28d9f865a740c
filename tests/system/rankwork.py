"""Functions that ranks import by name; nothing heavy is imported here."""

import os


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
