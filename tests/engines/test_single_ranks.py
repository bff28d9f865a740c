"""Ranks that start again one by one on several nodes: the driver decides about each restart."""

import os
import sys
import threading
import time
from pathlib import Path

import pytest

import procession
from engines.jobwork import fail_and_hold, fail_often, lives, note_life
from engines.localengine import LocalEngine
from procession import GroupFailed, Phase, Restart
from seams.rules import codes_of
from support import QUICK, START_PATIENCE, gone, until


def pids(folder):
    return [int(p.read_text()) for p in Path(folder).glob("rank*.*")]


def start(program, folder, *args, engine=None, **options):
    options = {"nproc": 2, "stop": QUICK, **options}
    engine = engine or LocalEngine(2)
    return procession.start_on(engine, program, args=(str(folder), *args), **options)


def test_restarts_count_for_the_whole_job(tmp_path):
    """On each node apart there are fewer than the most."""

    def work(folder):
        rank, life = os.environ["RANK"], note_life(folder)
        if (rank, life) in (("0", 0), ("3", 0), ("3", 1)):
            sys.exit(5)
        while not (rank == "0" and "rank3.2" in lives(folder)):
            time.sleep(0.01)
        sys.exit(5)

    job = start(work, tmp_path, restart=Restart(max=3, scope="rank"))
    with pytest.raises(GroupFailed) as caught:
        job.wait(40)
    assert len(lives(tmp_path)) == 4 + 3
    assert caught.value.cause.rank == 0
    said = str(caught.value)
    assert "not restarted: 3 of 3 restarts are used" in said
    notes = [note for note in caught.value.end.notes if "exited with code 5" in note]
    assert len(notes) == 3
    for note in notes:
        assert note.startswith(("rank 0 of 4 ", "rank 3 of 4 "))


def test_who_is_asked_about_failures_hears_of_each_rank_here_and_once(tmp_path):
    seen = []

    def on_failure(end):
        (failed,) = end.failures
        seen.append((os.getpid(), failed.rank, end.attempt, end.nproc, codes_of(end)))

    job = start(
        fail_often,
        tmp_path,
        1,
        0,
        0,
        2,
        restart=Restart(max=9, scope="rank"),
        on_failure=on_failure,
    )
    assert job.wait(40).values == ["1", "0", "0", "2"]
    expected = [(os.getpid(), rank, life, 4, {5}) for rank, life in ((0, 0), (3, 0), (3, 1))]
    assert sorted(seen) == expected


@pytest.mark.parametrize("raises", [False, True], ids=["says no", "raises"])
def test_what_it_answers_is_obeyed(tmp_path, raises):
    seen = []

    def on_failure(end):
        seen.append(end.failures[0].rank)
        if raises:
            raise KeyError("fault")
        return False

    job = start(
        fail_and_hold,
        tmp_path,
        restart=Restart(max=9, scope="rank"),
        on_failure=on_failure,
    )
    with pytest.raises(GroupFailed) as caught:
        job.wait(40)
    assert seen == [3]
    assert caught.value.cause.rank == 3
    assert len(lives(tmp_path)) == 4
    why = "on_failure raised KeyError: 'fault'" if raises else "on_failure said so"
    assert f"not restarted: {why}" in str(caught.value)


def test_a_stop_while_it_is_being_decided(tmp_path):
    asked, go_on = threading.Event(), threading.Event()

    def on_failure(end):
        asked.set()
        go_on.wait(60)

    restart = Restart(max=9, scope="rank")
    job = start(fail_and_hold, tmp_path, restart=restart, on_failure=on_failure)
    try:
        until(asked.is_set, "the question", START_PATIENCE)
        assert job.state is Phase.RUNNING
        job.stop(wait=False)
        gone(pids(tmp_path))  # nobody waits for the answer
    finally:
        go_on.set()
    with pytest.raises(GroupFailed) as caught:
        job.wait(40)
    assert caught.value.cause.rank == 3
    assert len(lives(tmp_path)) == 4
