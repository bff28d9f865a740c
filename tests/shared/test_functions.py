"""`shared=`: loaded once, the first argument of each rank, and in memory that ranks share."""

import functools
import os
import re
import threading
import weakref

import pytest

import procession
from support import QUICK, gone

RANKS = 3


def calls(file):
    """Give the processes that have called a set-up, which writes its pid into this file."""
    return [int(word) for word in file.read_text().split()] if file.exists() else []


def load(file, **more):
    with open(file, "a") as f:
        f.write(f"{os.getpid()}\n")
    return {"loaded by": os.getpid(), **more}


def loader(tmp_path, **more):
    return functools.partial(load, tmp_path / "calls", **more)


def shares(data):
    """Tell whether this rank is a fork of the process that has loaded this."""
    return data["loaded by"] == os.getppid()


def test_loads_once_and_gives_it_as_the_first_argument(tmp_path):
    def rank(data, a, b):
        return shares(data), a, b

    given = {"args": (1,), "kwargs": {"b": 2}, "shared": loader(tmp_path), "nproc": RANKS}
    assert procession.run(rank, **given) == [(True, 1, 2)] * RANKS
    assert len(calls(tmp_path / "calls")) == 1


def test_the_value_need_not_be_picklable(tmp_path):
    def held():
        return {**load(tmp_path / "calls"), "lock": threading.Lock(), "f": lambda x: x + 1}

    def rank(data):
        with data["lock"]:
            return shares(data) and data["f"](1)

    assert procession.run(rank, shared=held, nproc=RANKS) == [2] * RANKS


def test_a_rank_changes_its_own_copy():
    def rank(data):
        data.append(int(os.environ["RANK"]))
        return data

    assert procession.run(rank, shared=list, nproc=2) == [[0], [1]]


@pytest.mark.parametrize("scope", ["group", "rank"])
def test_restarts_use_it_without_loading_again(tmp_path, scope):
    def rank(data):
        if os.environ["RANK"] == "1" and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
            raise RuntimeError("once more")
        return shares(data)

    again = procession.Restart(1, scope=scope)
    assert all(
        procession.run(rank, shared=loader(tmp_path), nproc=RANKS, restart=again, stop=QUICK)
    )
    assert len(calls(tmp_path / "calls")) == 1


def test_nothing_of_it_stays_for_the_next_launch(tmp_path):
    first = procession.run(lambda data: data["loaded by"], shared=loader(tmp_path))[0]
    gone([first])
    assert procession.run(shares, shared=loader(tmp_path)) == [True]
    assert len(set(calls(tmp_path / "calls"))) == 2


def test_what_it_prints_is_shown_once(capfd):
    def talk():
        print("reading", flush=True)
        os.write(2, b"a warning\n")

    procession.run(lambda _: print("works"), shared=talk, nproc=RANKS)
    out, err = capfd.readouterr()
    assert out.count("reading") == 1
    assert err.count("a warning") == 1
    assert out.count("works") == RANKS


def test_it_has_the_variables_and_directory_of_the_ranks(tmp_path):
    def look():
        os.environ["FROM_SET_UP"] = "yes"
        return os.environ.get("COMMON"), os.environ.get("RANK"), os.getcwd()

    def rank(seen):
        return seen, os.environ["FROM_SET_UP"], os.environ["RANK"], os.getcwd()

    here = str(tmp_path)
    values = procession.run(rank, shared=look, nproc=2, env={"COMMON": "c"}, cwd=here)
    assert values == [(("c", None, here), "yes", str(r), here) for r in range(2)]
    assert "FROM_SET_UP" not in os.environ


def test_spawn_loads_in_each_rank(tmp_path):
    def rank(data):
        return data["loaded by"] == os.getpid()

    given = {"shared": loader(tmp_path), "nproc": RANKS, "start_method": "spawn"}
    assert procession.run(rank, **given) == [True] * RANKS
    assert len(calls(tmp_path / "calls")) == RANKS


def test_loads_in_each_rank_where_interpreters_differ(tmp_path, caplog):
    env = {rank: {"PYTHONHASHSEED": str(rank)} for rank in range(2)}
    rank = lambda data: data["loaded by"] == os.getpid()  # noqa: E731
    assert procession.run(rank, shared=loader(tmp_path), nproc=2, env=env) == [True] * 2
    assert "each rank loads for itself" in caplog.text


def test_ranks_do_not_destroy_it(tmp_path):
    class Left:
        def __del__(self):
            (tmp_path / f"destroyed-{os.getpid()}").touch()

    def load_left():
        left = Left()
        weakref.finalize(left, (tmp_path / "finalized").touch)
        return left

    assert procession.run(lambda _: os.getpid(), shared=load_left, nproc=2)
    assert list(tmp_path.iterdir()) == []


def dirty(rank_count, size):
    """Give the pages of a large array that a rank has for itself, in bytes, and its sum."""

    def rank(data):
        total = sum(data[:: 1 << 12])
        start = None
        with open("/proc/self/smaps") as f:
            for line in f:
                if found := re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line):
                    low, high = (int(word, 16) for word in found.groups())
                    start = low if high - low >= size else None
                elif start is not None and line.startswith("Private_Dirty:"):
                    return int(line.split()[1]) << 10, total
        return None

    return procession.run(rank, shared=lambda: bytes(b"\1" * size), nproc=rank_count)


def test_a_huge_value_is_in_memory_once():
    size = 200 << 20
    for private, total in dirty(RANKS, size):
        assert total == size >> 12
        assert private < size / 100


@pytest.mark.parametrize(
    ("program", "given", "said"),
    [
        (["true"], {"shared": list}, "a command begins with memory of its own"),
        (len, {"shared": "data:load"}, "must be a function, not 'data:load'"),
        (len, {"shared": 5}, "must be a function, not 5"),
        (len, {"shared": list, "start_method": "fork"}, "is not for start_method='fork'"),
        (len, {"shared": list, "engine": "ssh"}, "does not go with an engine"),
    ],
)
def test_refuses_before_anything_is_started(program, given, said):
    with pytest.raises(procession.SpecError) as caught:
        procession.run(program, **given)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_refuses_what_cannot_be_pickled_and_starts_nothing():
    lock = threading.Lock()
    with pytest.raises(procession.SpecError, match=r"shared .* cannot be pickled"):
        procession.run(len, shared=lambda: lock)
