"""Jobs over several nodes, with real node processes: each "node" is a process of this machine."""

import json
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import jsonschema
import pytest

import procession
from engines.jobwork import (
    beats_and_hangs,
    big_of_rank_1,
    hold,
    in_attempt,
    in_attempt_or_fail,
    meet,
    pids_of,
    place,
    sleep_alone,
    talk,
    wait_for,
)
from engines.localengine import LocalEngine
from eventkinds import schema
from procession import (
    EngineError,
    GroupFailed,
    Logs,
    Outcome,
    Phase,
    Restart,
    SpecError,
    StartFailed,
    Std,
)
from seams.jobs import SlotGone, make_job
from support import OBEDIENT, QUICK, START_PATIENCE, alive, gone, until, write

# For programs that import this module.
IMPORTABLE = os.pathsep.join(str(Path(__file__).parents[1] / each) for each in (".", "../docs"))


def all_hold(folder, ranks):
    """Wait for these ranks (a number: so many); gives their pids."""
    ranks = range(ranks) if isinstance(ranks, int) else ranks
    return until(lambda: pids_of(folder, ranks), f"ranks {ranks}", START_PATIENCE)


def start(program, engine=None, **options):
    engine = engine or LocalEngine(3)
    options = {"nproc": 2, "stop": QUICK, **options}
    return procession.start_on(engine, program, **options), engine


def test_values_arguments_and_variables_by_global_rank():
    def work(*args, **kwargs):
        names = [name for name in os.environ if name.startswith("PROCESSION_AGENT")]
        return place(), meet(), args, kwargs, os.environ["OWN"], os.environ["ALL"], names

    values = procession.run(
        work,
        engine=LocalEngine(3),
        nproc=2,
        nnodes=3,
        args={r: (r, "x") for r in range(6)},
        kwargs={3: {"last": True}},
        env={r: {"OWN": str(r), "ALL": "yes"} for r in range(6)},
    )
    assert len({value[1] for value in values}) == 1
    assert [(*value[:1], *value[2:]) for value in values] == [
        ((r, r % 2, r // 2, 6, 2, 3), (r, "x"), {"last": True} if r == 3 else {}, str(r), "yes", [])
        for r in range(6)
    ]


@pytest.mark.parametrize("hang", [procession.Hang(), procession.Hang(silence=60)])
def test_commands_have_prefixes_with_node_and_rank(capfd, hang):
    script = ["sh", "-c", 'echo "out $RANK"; echo "err $RANK" >&2']
    assert procession.run(script, engine=LocalEngine(2), nproc=2, hang=hang) == [None] * 4
    seen = capfd.readouterr()
    assert sorted(seen.out.splitlines()) == [f"[{r // 2}:{r}] out {r}" for r in range(4)]
    assert sorted(seen.err.splitlines()) == [f"[{r // 2}:{r}] err {r}" for r in range(4)]


def test_much_output_comes_whole(capfd):
    lines = 20_000
    script = f"import os\nfor i in range({lines}): print(os.environ['RANK'], i, 'x' * 40)"
    procession.run([sys.executable, "-c", script], engine=LocalEngine(2), nproc=1)
    seen = capfd.readouterr().out.splitlines()
    for rank in (0, 1):
        expected = [f"[{rank}:{rank}] {rank} {i} {'x' * 40}" for i in range(lines)]
        assert [line for line in seen if line.startswith(f"[{rank}:")] == expected


def test_the_rank_that_failed_is_the_cause_with_its_exception(tmp_path):
    class Odd(ValueError):
        pass

    def work(folder):
        if os.environ["RANK"] == "3":
            wait_for(folder, (0, 1, 2, 4, 5))
            raise Odd("so it is")
        hold(folder)

    with pytest.raises(GroupFailed) as caught:
        start(work, args=(str(tmp_path),), stop=OBEDIENT)[0].wait(30)
    failed = caught.value
    assert (failed.cause.rank, failed.exit_code) == (3, 1)
    assert [f.rank for f in failed.failures] == [3]
    assert {e.rank for e in (*failed.ended, *failed.finished)} == {0, 1, 2, 4, 5}
    assert failed.cause.host == os.uname().nodename
    assert type(failed.__cause__).__name__ == "Odd"
    for said in ("rank 3 of 6", "when it failed, the others were", 'raise Odd("so it is")'):
        assert said in str(failed)


@pytest.mark.parametrize("tells", [True, False])
def test_a_node_process_that_is_killed(tmp_path, tells):
    """Also if the engine does not notice."""
    job, engine = start(hold, LocalEngine(3, tells=tells), args=(str(tmp_path),))
    pids = all_hold(tmp_path, 6)
    engine.processes[1].kill()
    with pytest.raises(GroupFailed) as caught:
        job.wait(30)
    failed = caught.value
    assert failed.cause.outcome is Outcome.NODE_LOST
    assert [f.rank for f in failed.failures] == [2, 3]
    assert {e.rank for e in failed.ended} == {0, 1, 4, 5}
    assert "node 1" in str(failed)
    gone(pids)


def test_a_node_process_that_says_nothing_any_more(tmp_path):
    """Its ranks run on until it can end them: here, when it is woken."""
    job, engine = start(hold, args=(str(tmp_path),), lease=1.0)
    pids = all_hold(tmp_path, 6)
    process = engine.processes[0]
    process.send_signal(signal.SIGSTOP)
    began = time.monotonic()
    with pytest.raises(GroupFailed, match="it has said nothing for") as caught:
        job.wait(30)
    assert caught.value.cause.rank == 0
    assert time.monotonic() - began > 0.5
    gone(pids)  # the engine's kill has ended the node process, and its agent the ranks


def test_nothing_is_left_of_a_driver_that_is_killed(tmp_path):
    script = write(
        tmp_path / "main.py",
        f"""
        import procession
        from engines.localengine import LocalEngine
        from engines.jobwork import hold
        procession.run(hold, args=({str(tmp_path)!r},), engine=LocalEngine(3), nproc=2)
        """,
    )
    env = {**os.environ, "PYTHONPATH": IMPORTABLE}
    with subprocess.Popen([sys.executable, script], env=env) as main:
        try:
            pids = all_hold(tmp_path, 6)
        finally:
            main.kill()  # `with` would wait for it for ever
    gone(pids)


def test_ranks_have_their_whole_grace_when_sigterm_ends_a_driver_in_python(tmp_path):
    """A job's end by its engine (scancel, a time limit) is SIGTERM to the driver, maybe twice."""
    script = write(
        tmp_path / "main.py",
        f"""
        import os, signal, time
        import procession
        from pathlib import Path
        from engines.localengine import LocalEngine
        def work(folder):
            got = []
            signal.signal(signal.SIGTERM, lambda *_: got.append(1))
            Path(folder, "rank" + os.environ["RANK"]).write_text(str(os.getpid()))
            while not got:
                time.sleep(0.01)
            Path(folder, "told" + os.environ["RANK"]).touch()
            time.sleep(2.5)  # more than what ranks have when their driver is lost
            Path(folder, "saved" + os.environ["RANK"]).touch()
        try:
            procession.run(work, args=({str(tmp_path)!r},), engine=LocalEngine(2), nproc=1)
        finally:
            print("not reached: SIGTERM ends the process by its default action")
        """,
    )
    with subprocess.Popen(
        [sys.executable, script],
        env={**os.environ, "PYTHONPATH": IMPORTABLE},
        stdout=subprocess.PIPE,
    ) as main:
        pids = all_hold(tmp_path, 2)
        main.terminate()
        until(lambda: len(list(tmp_path.glob("told*"))) == 2, "the stop signal")
        main.terminate()
        assert main.wait(20) == -signal.SIGTERM
        assert main.stdout.read() == b""
    assert len(list(tmp_path.glob("saved*"))) == 2
    gone(pids)


def test_restarts(tmp_path):
    def work(folder):
        attempt = os.environ["TORCHELASTIC_RESTART_COUNT"]
        assert os.environ["TORCHELASTIC_MAX_RESTARTS"] == "2"
        print("attempt", attempt, flush=True)
        if os.environ["RANK"] == "1" and attempt != "2":
            sys.exit(5)
        if attempt != "2":
            hold(folder)
        return int(attempt)

    seen = []
    job, _ = start(
        work,
        args=(str(tmp_path),),
        restart=Restart(max=2),
        logs=Logs(tmp_path / "logs", tee=Std.ALL),
        on_failure=lambda end: seen.append((end.attempt, end.failures[0].rank)),
    )
    result = job.wait(60)
    assert result.values == [2] * 6
    assert seen == [(0, 1), (1, 1)]
    (run,) = (tmp_path / "logs").iterdir()
    assert str(run) == result.run_dir
    for node in range(3):
        for attempt in range(3):
            log = run / f"node_{node}" / f"attempt_{attempt}" / "0" / "stdout.log"
            assert log.exists()
        assert log.read_text() == "attempt 2\n"
    events = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    fits = jsonschema.Draft202012Validator(schema())
    for event in events:
        fits.validate(event)
    kinds = [event["kind"] for event in events]
    assert kinds.count("backoff") == 2
    assert kinds[-1] == "succeeded"
    told = json.loads((run / "result.json").read_text())
    assert (told["state"], told["nproc"], told["nodes"]) == ("SUCCEEDED", 6, 3)
    assert [(r["rank"], r["local_rank"]) for r in told["ranks"]] == [(r, r % 2) for r in range(6)]
    assert {r["host"] for r in told["ranks"]} == {os.uname().nodename}


@pytest.mark.parametrize("restart", [Restart(node_losses=1), Restart(max=1)])
@pytest.mark.parametrize("slots", [3, 2])
def test_a_lost_node_is_replaced(tmp_path, slots, restart):
    """By a spare one, or by another node process."""
    job, engine = start(
        in_attempt,
        LocalEngine(slots),
        nnodes=2,
        args=(str(tmp_path), 0),
        restart=restart,
    )
    pids = all_hold(tmp_path, 4)
    slot = job.driver.life.places[0]  # of three, the first two that came are no spares
    first = engine.processes[slot]
    first.kill()
    assert [v[0] for v in job.wait(30).values] == ["0", "0", "1", "1"]
    gone(pids)
    assert (engine.processes[slot] is first) == (slots == 3)


def test_lines_of_several_nodes_are_whole(capfd):
    program = ["sh", "-c", 'printf "begins $RANK, "; sleep 1; echo "ends $RANK"']
    procession.run(program, engine=LocalEngine(2), nproc=1)
    lines = capfd.readouterr().out.splitlines()
    assert {*lines} == {f"[{n}:{n}] begins {n}, ends {n}" for n in range(2)}


def test_its_events_are_those_of_all_ranks_by_their_numbers(tmp_path):
    wait = "touch $0/$RANK; until [ $(ls $0 | wc -l) = 6 ]; do sleep 0.01; done"
    group, _ = start(["sh", "-c", f"{wait}; [ $RANK != 4 ] || exit 7", str(tmp_path)])
    with pytest.raises(GroupFailed):
        group.wait(40)
    seen = {(event.rank, event.kind) for event in group}
    assert {(rank, kind) for rank in range(6) for kind in ("spawned", "exited")} <= seen
    assert group.pids().keys() == {*range(6)}
    assert group.exit_of(4).code == 7


def test_a_stop(tmp_path):
    job, _ = start(hold, args=(str(tmp_path),))
    pids = all_hold(tmp_path, 6)
    assert job.state is Phase.RUNNING
    assert job.hosts == [os.uname().nodename] * 3
    job.stop()
    assert job.state is Phase.STOPPED
    assert not any(map(alive, pids))
    assert job.wait().values == [None] * 6


def gives_up(_command, tell):
    tell(SlotGone(None, "the allocation was revoked"))


def refuses(_command, _tell):
    raise EngineError("no nodes\ntoday")


@pytest.mark.parametrize(
    ("begins", "said"),
    [
        (refuses, "0 of 2 node processes came: no nodes today"),
        (gives_up, "the allocation was revoked"),
        (lambda _command, _tell: None, "0 of 2 node processes came within 1 s"),
    ],
)
def test_an_engine_that_starts_no_node_process(begins, said):
    engine = LocalEngine(2)
    engine.start = begins
    with pytest.raises(StartFailed, match=said):
        start(place, engine, hang=procession.Hang(start=1.0))


@pytest.mark.parametrize(
    ("hooks", "kind", "said"),
    [
        ("failing", GroupFailed, "its node process failed: LookupError: there is no such field"),
        ("otherversion", StartFailed, r"has procession 0\.0\.7, and this job .*: install the same"),
    ],
)
def test_a_node_process_that_cannot_work_says_why(hooks, kind, said):
    engine = LocalEngine(2, env={"PYTHONPATH": str(Path(__file__).parent / hooks)})
    with pytest.raises(kind, match=said):
        procession.run(["true"], engine=engine, nnodes=2, nproc=1)


def test_a_node_on_which_it_cannot_be_started(tmp_path):
    missing = tmp_path / "there"
    missing.mkdir()

    class Elsewhere(LocalEngine):
        def _start(self, slot):
            if missing.exists():
                missing.rmdir()
            super()._start(slot)

    with pytest.raises(StartFailed) as caught:
        start(["true"], Elsewhere(2), cwd=missing)
    assert caught.value.cause.outcome is Outcome.NOT_STARTED
    assert str(missing) in str(caught.value)


def test_strangers_at_the_door(tmp_path):
    """Whoever has not the key is not listened to, and disturbs nobody."""
    job, _ = start(hold, args=(str(tmp_path),))
    all_hold(tmp_path, 6)
    port = job.driver.door.getsockname()[1]
    for words in (b"GET / HTTP/1.1\r\n\r\n", b"PRCSSN\0\2\0" + b"n" * 32 + b"\xff" * 100):
        with socket.create_connection(("127.0.0.1", port), 5) as stranger:
            stranger.sendall(words)
            stranger.settimeout(10)
            with_opening = b"".join(iter(lambda s=stranger: s.recv(4096), b""))
            assert len(with_opening) <= 41
    assert job.state is Phase.RUNNING
    job.stop()


@pytest.mark.parametrize("code", [0, 7])
def test_node_processes_that_go_by_themselves_are_not_killed(code):
    """slurmstepd may hang for ever when it is told to kill what is just ending."""
    engine = LocalEngine(2)
    job = make_job(["sh", "-c", f"exit {code}"], engine=engine, nnodes=2, nproc=1)
    job.drive()
    assert job.state is (Phase.FAILED if code else Phase.SUCCEEDED)
    assert not engine.killed


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"start_method": "fork"}, "for this machine only"),
        ({"stdin": 0}, "cannot read this process's input"),
        ({"lease": 0.1}, "lease must be seconds"),
        ({"nproc": 0}, "nproc must be a count"),
        ({"restart": Restart(node_losses=-1)}, "node_losses must be a count"),
        ({"args": {7: (1,)}}, "the group's ranks are 0 to 5"),
        ({"args": (multiprocessing.Pipe()[0],)}, "only this machine has"),
        ({"engine": None}, "needs an engine"),
        ({"engine": None, "rendezvous": 29400}, "rendezvous must be 'HOST:PORT'"),
        ({"devices": "tpus"}, "devices must be one of auto, "),
        ({"engine": "lsf"}, "unknown engine 'lsf'; choose slurm, ray or ssh"),
    ],
)
def test_what_is_refused_before_anything_starts(options, words):
    engine = LocalEngine(3)
    with pytest.raises(SpecError, match=words):
        procession.run(place, **{"engine": engine, "nnodes": 3, "nproc": 2, **options})
    assert not engine.processes


def test_all_cpus_of_each_node_with_variables_by_rank():
    """They are counted for each node, also where something is given by rank of the job."""
    cpus = os.sched_getaffinity(0)
    placement = procession.Placement(cpus_per_rank=len(cpus))
    options = {"nproc": 1, "nnodes": 2, "env": {0: {"A": "0"}, 1: {"A": "1"}}}
    values = procession.run(
        os.sched_getaffinity, args=(0,), engine=LocalEngine(2), placement=placement, **options
    )
    assert values == [cpus] * 2


STOPS = (lambda: signal.raise_signal(signal.SIGSTOP), "it is stopped (as by SIGSTOP")


@pytest.mark.parametrize(("alone", "said"), [(sleep_alone, "sleep_alone"), STOPS])
def test_a_hang_is_blamed_on_the_odd_one_of_all_nodes(tmp_path, alone, said):
    # So long that all ranks are in their places by then, also on a busy machine.
    job, _ = start(beats_and_hangs, args=(str(tmp_path), alone), hang=procession.Hang(timeout=4))
    with pytest.raises(GroupFailed) as caught:
        job.wait(40)
    failed = caught.value
    assert (failed.exit_code, [e.rank for e in failed.failures]) == (124, [2]), failed
    assert "no beat for" in failed.cause.message
    assert said in failed.cause.message
    assert any("[0-1,3-5]" in line for line in failed.end.stacks), failed.end.stacks


@pytest.mark.long
def test_a_job_in_which_nobody_says_anything(tmp_path):
    hang = procession.Hang(silence=1.5)
    job, _ = start(talk, LocalEngine(2), args=(str(tmp_path), 4), hang=hang, lease=1.0)
    with pytest.raises(GroupFailed) as caught:
        job.wait(40)
    assert caught.value.cause.outcome is Outcome.HUNG
    assert "no rank has written anything" in str(caught.value)


def test_a_slow_on_failure_holds_up_nothing_but_the_restart(tmp_path):
    """Heartbeats go on: no node process takes its driver for lost."""

    def slowly(_):
        time.sleep(2.5)

    job, _ = start(
        in_attempt_or_fail,
        LocalEngine(2),
        restart=Restart(max=1),
        on_failure=slowly,
        lease=1.0,
    )
    assert job.wait(40).values == ["1"] * 4


def test_the_run_directory_holds_no_secrets_of_a_command_line(tmp_path):
    program = [sys.executable, "-c", "pass", "--api-key", "hush-hush"]
    procession.run(program, engine=LocalEngine(1), nproc=1, logs=Logs(dir=tmp_path))
    texts = [p.read_text() for p in tmp_path.rglob("*") if p.is_file()]
    assert any("--api-key" in text for text in texts)
    assert not any("hush-hush" in text for text in texts)


def test_a_value_that_is_too_large_to_be_sent():
    engine = LocalEngine(2, env={"PYTHONPATH": str(Path(__file__).parent / "smallwire")})
    with pytest.raises(GroupFailed) as caught:
        procession.run(big_of_rank_1, engine=engine, nproc=1)
    assert caught.value.cause.rank == 1
    assert "it is too large" in str(caught.value)


def test_a_driver_that_was_stopped_is_named_as_a_cause(tmp_path):
    job, _ = start(hold, LocalEngine(2), args=(str(tmp_path),), lease=1)
    pids = all_hold(tmp_path, 4)
    job.driver.loop.request(lambda: gone(pids))  # nodes end their ranks, as it says nothing
    with pytest.raises(GroupFailed, match="this process itself was stopped, or got no processor"):
        job.wait(30)
