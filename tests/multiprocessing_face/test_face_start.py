"""How processes start: methods, arguments, surroundings, and what is refused before anything."""

import ast
import multiprocessing
import os

import facework
import pytest
from facesupport import METHODS, ending, notes, tidy  # noqa: F401

import procession
import procession.multiprocessing as mp
from support import until


def run(fn, *args, nprocs=2, **options):
    return mp.start_processes(fn, args, nprocs=nprocs, **options)


@pytest.mark.parametrize("method", METHODS)
def test_called_with_its_number_and_the_arguments(tmp_path, method):
    run(facework.tell, str(tmp_path), 7, "x", nprocs=3, start_method=method)
    assert notes(tmp_path, 3) == ["(7, 'x')"] * 3


@pytest.mark.parametrize("join", [True, False])
def test_no_processes_at_all(join):
    """As the original: nothing is done, and all of nothing is joined."""
    group = mp.start_processes(facework.nothing, nprocs=0, join=join)
    assert group is None if join else group.join() is True


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"fn": "train.py"}, "'train.py'"),
        ({"args": 5}, "args"),
        ({"nprocs": -1}, "-1"),
        ({"nprocs": 2.0}, "2.0"),
        ({"start_method": "nope"}, "nope"),
    ],
)
def test_refused_before_anything_starts(options, said):
    before = multiprocessing.active_children()
    with pytest.raises(procession.SpecError, match=said) as caught:
        mp.start_processes(**{"fn": facework.nothing, "nprocs": 2, **options})
    assert "\n" not in str(caught.value)
    assert multiprocessing.active_children() == before


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_an_argument_that_cannot_be_pickled_is_named(method):
    """The original has started other processes by then, and leaves them."""
    import threading

    with pytest.raises(procession.SpecError, match=r"argument 2 \(lock\)"):
        run(facework.nothing, 1, threading.Lock(), start_method=method)


def test_spawn_warns_of_another_method_and_does_not_follow(tmp_path):
    said = "This method only supports start_method=spawn.*start_processes"
    with pytest.warns(FutureWarning, match=said) as caught:
        mp.spawn(facework.identity, (str(tmp_path),), start_method="fork")
    assert caught[0].filename == __file__
    assert notes(tmp_path, 1)[0].startswith("('SpawnProcess-")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("daemon", [False, True])
def test_identity(tmp_path, method, daemon):
    group = run(facework.identity, str(tmp_path), start_method=method, daemon=daemon, join=False)
    until(group.join)
    for process, told in zip(group.processes, notes(tmp_path, 2), strict=True):
        number = int(process.name.partition("-")[2])
        assert ast.literal_eval(told) == (
            process.name,
            daemon,
            (number,),
            "MainProcess",
            os.getpid(),
            True,
        )
        assert process.daemon is daemon


@pytest.mark.parametrize("method", METHODS)
def test_environment_is_the_callers(tmp_path, method, monkeypatch):
    """Variables of torchrun would make programs that use `spawn` take themselves for others."""
    monkeypatch.setenv("MASTER_PORT", "12355")
    monkeypatch.setenv("MINE", "yes")
    run(facework.environment, str(tmp_path), start_method=method)
    for told in notes(tmp_path, 2):
        env = ast.literal_eval(told)
        assert env.pop("PROCESSION_RUN")
        assert env.pop("PROCESSION_BOARD")
        assert env.pop("PROCESSION_LAUNCHER")
        locale = env.pop("LC_CTYPE", None)  # which Python sets itself, where it starts anew
        if method == "fork":
            assert locale == os.environ.get("LC_CTYPE")
        env["LC_CTYPE"] = os.environ.get("LC_CTYPE")
        assert env == {**os.environ, "LC_CTYPE": os.environ.get("LC_CTYPE")}


@pytest.mark.parametrize("method", METHODS)
def test_streams_are_the_callers_without_a_prefix(method, capfd):
    run(facework.streams, start_method=method)
    out, err = capfd.readouterr()
    assert sorted(out.splitlines()) == ["rank 0 reads ''", "rank 1 reads ''"]
    assert sorted(err.splitlines()) == ["rank 0 complains", "rank 1 complains"]


# -- children of ranks


def test_daemonic_processes_cannot_have_children(tmp_path):
    for fn, said in (
        (facework.child_of_multiprocessing, "AssertionError: daemonic"),
        (facework.nested, "AssertionError: a daemonic process must not have children"),
    ):
        with pytest.raises(mp.ProcessRaisedException, match=said):
            mp.spawn(fn, (str(tmp_path),), daemon=True)


# -- what `multiprocessing` shares


@pytest.mark.parametrize("method", METHODS)
def test_sharing(method):
    """tests/system/test_start_multiprocessing.py has all that can be shared."""
    context = mp.get_context(method)
    here, there, queue = context.Event(), context.Event(), context.SimpleQueue()
    ours, theirs = context.Pipe()
    given = (here, there, queue, theirs)
    group = run(facework.exchange, *given, nprocs=1, start_method=method, join=False)
    with ending(group):
        theirs.close()
        here.set()
        assert there.wait(20)
        ours.send(20)
        assert queue.get() == 21
        until(group.join)
        with pytest.raises(EOFError):
            ours.recv()
    queue.close()
    ours.close()
