"""One program on several sides: cold, preloaded, plain Python.

A program notes what it sees in a dict `seen`; `sides` runs it and gives what its ranks saw.
"""

import json
from typing import NamedTuple

import procession
from procession import Logs, Std
from support import run_python, write

# Only a rank of an agent that has imported something early has this module.
TELL = """
if __name__ == "__main__":  # and not where a process of its own imports it
    import json, procession.worker
    early = hasattr(procession.worker, "renewal")
    print("\\n" + json.dumps({"early": early, "seen": seen}))
"""


class Rank(NamedTuple):
    """What one rank saw, and what it had printed before it told that."""

    seen: dict
    early: bool
    out: str
    err: str


class Sides(NamedTuple):
    """What the ranks of a program saw, on each side."""

    cold: list[Rank]
    auto: list[Rank]

    def __iter__(self):
        raise TypeError("name the side")

    @property
    def all(self):
        return [*self.cold, *self.auto]


def _rank(out, err):
    assert "\n" in out, (out, err)
    before, _, last = out.rstrip("\n").rpartition("\n")
    told = json.loads(last)
    return Rank(told["seen"], told["early"], before.removesuffix("\n"), err)


def ranks(program, directory, *, nproc=2, **options):
    """Run a group whose ranks tell what they saw; gives a `Rank` for each."""
    logs = Logs(dir=directory / "logs", redirect=Std.ALL)
    with procession.start(program, nproc=nproc, logs=logs, **options) as group:
        result = group.wait()
    found = []
    for end in result.ranks:
        with open(end.stdout_log) as out, open(end.stderr_log) as err:
            found.append(_rank(out.read(), err.read()))
    return found


def script(directory, source, name="main.py"):
    """Write a program that tells what it saw."""
    return write(directory / name, source + "\n" + TELL)


def sides(directory, source, *, args=(), module=False, **options):
    """Run a program on all sides; its ranks must have been preloaded, but for the cold ones."""
    path = script(directory, source)
    if module:
        program = procession.Module("main")
        options.setdefault("cwd", directory)
    else:
        program = procession.Script(str(path))
    options["args"] = args
    found = Sides(
        ranks(program, directory, preload=None, **options),
        ranks(program, directory, **options),
    )
    assert not any(r.early for r in found.cold)
    assert all(r.early for r in found.auto), "nothing was preloaded"
    return found


def plain(path, *args, flags=(), **options):
    """Run a program that tells what it saw by Python itself."""
    done = run_python(*flags, path, *args, **options)
    assert done.returncode == 0, done.stderr
    return _rank(done.stdout, done.stderr)


def same(found):
    """Assert that no rank can tell on which side it is; gives what all of them saw."""
    expected = found.cold[0]
    for other in found.all:
        differing = {
            k: (expected.seen.get(k), other.seen.get(k))
            for k in expected.seen.keys() | other.seen.keys()
            if expected.seen.get(k) != other.seen.get(k)
        }
        assert differing == {}
        assert other.out == expected.out
        assert other.err == expected.err
    return expected


def fresh(found, *names):
    """Assert that what the ranks saw by these names is different in each of them."""
    for name in names:
        values = [json.dumps(r.seen[name]) for r in found.all]
        assert len(set(values)) == len(values), (name, values)
