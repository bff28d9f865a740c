"""What ranks load, and the rank that works with it: an array, a dict of words, a data set."""

import os
import signal
import sys
import time
from pathlib import Path


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
    note(Path(directory), str(os.getpid()))
    signal.pause()


def stay_alone(_, kind, size, directory):
    """Do as `stay`, and load before."""
    stay(load(kind, size, directory), directory)


def fail_once(data, directory):
    """In the first attempt, work until rank 0 fails; in the second one, work and go."""
    at, rank = Path(directory), os.environ["RANK"]
    attempt, n = os.environ["TORCHELASTIC_RESTART_COUNT"], int(os.environ["WORLD_SIZE"])
    data[0]
    note(at, f"began_{attempt}_{rank}")
    if attempt == "0":
        if rank != "0":
            signal.pause()
        while len(list(at.glob("began_0_*"))) < n:
            time.sleep(0.005)
        note(at, "failed")
        sys.exit(1)


def note(directory, name):
    part = directory.parent / f".{directory.name}.{name}"
    part.write_text(str(time.monotonic_ns()))
    part.rename(directory / name)
