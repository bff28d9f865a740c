"""What ranks load, and the rank that works with it: an array, a dict of words, a data set."""

import os
import signal
import time
from pathlib import Path

import notes


def load(kind, size, directory):
    """Load something of so many megabytes. Leaves a file for each call, beside the directory."""
    calls = Path(f"{directory}.calls")
    calls.mkdir(exist_ok=True)
    (calls / str(time.monotonic_ns())).touch()
    if kind == "array":
        import numpy

        return numpy.ones(size * 1_000_000 // 8)
    if kind == "words":
        return {f"word{n}": n for n in range(size * 1_000_000 // 140)}  # which is what they take
    import numpy
    from sklearn.datasets import load_digits

    digits = load_digits().data
    return numpy.tile(digits, (max(1, size * 1_000_000 // digits.nbytes), 1))


def work(data):
    """Look at all of it."""
    return sum(map(len, data)) + sum(data.values()) if isinstance(data, dict) else data.sum()


def stay(data, directory):
    """Work, leave a file that says when that was done, and wait to be ended."""
    assert work(data) > 0
    notes.note(directory, str(os.getpid()))
    signal.pause()


def stay_alone(kind, size, directory):
    """Do as `stay`, and load before."""
    stay(load(kind, size, directory), directory)


def fail_once(data, directory):
    """In the first attempt, have the data until rank 0 fails; in the second one, have it and go."""
    data[0]
    notes.fail_once(directory)
