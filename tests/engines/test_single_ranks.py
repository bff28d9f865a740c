"""Ranks that start again one by one on several nodes: the driver decides about each restart."""

import json
import os
import sys
import threading
import time
from pathlib import Path

import jsonschema
import pytest

import procession
from engines.jobwork import fail_and_hold, fail_often, lives, note_life
from engines.localengine import LocalEngine
from eventkinds import schema
from procession import GroupFailed, Logs, Outcome, Phase, Restart, Std
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
    assert "not started again: it was started again 3 times, which is the most" in said
    notes = [note for note in caught.value.end.notes if "exited with code 5" in note]
    assert len(notes) == 3
    for note in notes:
        assert note.startswith(("rank 0 of 4 ", "rank 3 of 4 "))


def test_what_is_enough_for_the_whole_job_is_enough(tmp_path, capfd):
    logs = tmp_path / "logs"
    job = start(
        fail_often,
        tmp_path,
        1,
        0,
        0,
        1,
        restart=Restart(max=2, scope="rank"),
        logs=Logs(logs, redirect=Std.ALL),
    )
    assert job.wait(40).values == ["1", "0", "0", "1"]
    (run,) = logs.iterdir()
    events = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    for event in events:
        jsonschema.validate(event, schema())
    found = [e for e in events if e["kind"] == "restarting"]
    assert sorted(e["rank"] for e in found) == [0, 3]
    shown = capfd.readouterr().err.splitlines()
    for number, event in enumerate(found, 1):
        said = event["detail"]
        assert said.startswith(f"rank {event['rank']} of 4 ")
        assert said.endswith(f"; it starts again (restart {number} of 2)")
        assert f"procession: {said}" in shown
    assert [e["restarts"] for e in events if e["kind"] == "starting"] == [2]


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
    assert f"not started again: {why}" in str(caught.value)


def waiting(job_of, folder):
    """Start a job whose `on_failure` waits; gives it when it does, and what lets that go on."""
    asked, go_on = threading.Event(), threading.Event()

    def on_failure(end):
        asked.set()
        go_on.wait(60)

    job = job_of(on_failure)
    until(asked.is_set, "the question", START_PATIENCE)
    return job, go_on


def test_a_stop_while_it_is_being_decided(tmp_path):
    restart = Restart(max=9, scope="rank")
    job, go_on = waiting(
        lambda call: start(fail_and_hold, tmp_path, restart=restart, on_failure=call), tmp_path
    )
    try:
        assert job.state is Phase.RUNNING
        job.stop(wait=False)
        gone(pids(tmp_path))  # nobody waits for the answer
    finally:
        go_on.set()
    with pytest.raises(GroupFailed) as caught:
        job.wait(40)
    assert caught.value.cause.rank == 3
    assert len(lives(tmp_path)) == 4


def test_a_stop_while_it_is_being_decided_about_an_attempt(tmp_path):
    job, go_on = waiting(
        lambda call: start(fail_and_hold, tmp_path, restart=Restart(max=9), on_failure=call),
        tmp_path,
    )
    try:
        job.stop(wait=False)
        until(lambda: job._driver.life.phase.final)
    finally:
        go_on.set()
    with pytest.raises(GroupFailed):
        job.wait(40)
    assert len(lives(tmp_path)) == 4


def test_the_driver_is_lost_while_it_is_being_decided(tmp_path):
    restart = Restart(max=9, scope="rank")
    engine = LocalEngine(2, tells=False)
    job, go_on = waiting(
        lambda call: start(
            fail_and_hold, tmp_path, engine=engine, restart=restart, on_failure=call
        ),
        tmp_path,
    )
    try:
        agents = list(job._driver._roster.agents.values())
        job._driver._loop.request(lambda: [agent.link.close() for agent in agents])
        gone(pids(tmp_path))  # nobody waits for the answer
        for process in engine.processes.values():
            process.wait(20)
        assert len(lives(tmp_path)) == 4
    finally:
        go_on.set()
        job.kill()


def test_a_lost_node_is_replaced_where_ranks_start_again_one_by_one(tmp_path):
    seen = []

    def on_failure(end):
        seen.append((end.failures[0].outcome, end.failures[0].rank // 2))

    def work(folder):
        if note_life(folder) == 0:
            while True:
                time.sleep(0.01)
        return os.environ["RANK"]

    engine = LocalEngine(3)
    job = start(
        work,
        tmp_path,
        engine=engine,
        nnodes=2,
        restart=Restart(max=1, scope="rank", node_losses=1),
        on_failure=on_failure,
    )
    until(lambda: len(lives(tmp_path)) == 4, "all ranks", START_PATIENCE)
    engine.processes[job._driver.life.places[1]].kill()
    assert job.wait(40).values == ["0", "1", "2", "3"]
    assert seen == [(Outcome.NODE_LOST, 1)]
