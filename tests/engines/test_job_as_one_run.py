"""A job over several nodes is one run: seen, followed and steered as a whole, from its launcher."""

import contextlib
import json
import os
import signal
import subprocess

import procession
from control.clients import connected, sockets
from engines.jobwork import hold, hold_and_complain
from engines.localengine import LocalEngine
from engines.test_jobs import all_hold
from procession import Logs, Phase, Std, Stop
from seams.control import find_run, runs
from support import OBEDIENT, PROCESSION, gone, run_procession, until

HERE = os.uname().nodename
WHERE = "when it was stopped, the ranks were:\n  4 ranks [0-3] wait for a signal\n"


@contextlib.contextmanager
def held(folder, nodes=2, nproc=2, **options):
    """Give a job whose ranks hold, and what they are."""
    options = {"stop": OBEDIENT, "control": True, **options}
    engine = options.pop("engine", None) or LocalEngine(nodes)
    program = options.pop("program", hold)
    job = procession.start_on(engine, program, nproc=nproc, args=(str(folder),), **options)
    try:
        yield job, all_hold(folder, nodes * nproc)
    finally:
        job.kill()


def test_it_is_listed_once_with_the_ranks_of_all_nodes(tmp_path):
    with held(tmp_path) as (job, pids):
        assert sockets() == [job.run_id]
        look = job.look()
        processes = [process["pid"] for process in look["agents"]]
        rows = json.loads(run_procession("ps", "--json", timeout=60).stdout)
        (row,) = [r for r in rows if r["launcher"] in (os.getpid(), *processes)]
        assert (row["id"], row["state"], row["alive"]) == (job.run_id, "RUNNING", 4)
        assert [(r["rank"], r["pid"]) for r in row["ranks"]] == [*enumerate(pids)]
        assert (row["launcher"], row["hosts"]) == (os.getpid(), [HERE, HERE])
        assert (look["nproc"], look["nodes"], look["first"]) == (4, 2, 0)
        assert [(r["rank"], r["pid"], r["state"]) for r in look["ranks"]] == [
            (rank, pid, "RUNNING") for rank, pid in enumerate(pids)
        ]
        began = [r["started_at"] for r in look["ranks"]]
        assert all(0 <= at - look["began"] < 60 for at in began)
        said = run_procession("report", job.run_id).stdout
        assert ": 4 RUNNING, " in said
        assert f"launcher: pid {os.getpid()} on {HERE}" in said
        job.send_signal(2, signal.SIGKILL)
        with contextlib.suppress(procession.GroupFailed):
            job.wait(30)
        last = job.look()
        assert last["cause"] == "rank 2 was killed by SIGKILL"
        assert [r["ended"] for r in last["ranks"]] == ["STOPPED", "STOPPED", "FAILED", "STOPPED"]
    assert sockets() == []


def test_a_stop_from_another_terminal_ends_all_of_it(tmp_path):
    with held(tmp_path) as (job, pids):
        done = run_procession("stop", job.run_id, "--grace", "5")
        assert (done.returncode, done.stdout) == (
            0, f"procession: {job.run_id} was stopped, exit code 143\n{WHERE}"
        )  # fmt: skip
        assert job.wait(30).state is Phase.STOPPED
        assert job.stopped_by == signal.SIGTERM
        gone(pids)


def test_its_stacks_are_those_of_all_ranks(tmp_path):
    with held(tmp_path) as (job, _):
        assert [r["rank"] for r in job.stacks()] == [0, 1, 2, 3]
        said = run_procession("stacks", job.run_id)
        assert said.returncode == 0
        assert "4 ranks [0-3]" in said.stdout
        assert "hold (jobwork.py" in said.stdout


def test_its_output_comes_over_its_socket():
    script = 'echo "out $RANK"; exec sleep 60'
    program = ["sh", "-c", script]
    job = procession.start_on(LocalEngine(2), program, nproc=1, stop=OBEDIENT, control=True)
    try:

        def shown():
            with connected() as connection:
                connection.ask("log", lines=100)
                texts = [e["text"] for e in connection.events(0.5) if e["event"] == "log"]
            return set("".join(texts).splitlines()) == {"[0:0] out 0", "[1:1] out 1"}

        until(shown, "the lines of both ranks")
        said = run_procession("logs", job.run_id).stdout
        assert set(said.splitlines()) == {"[0:0] out 0", "[1:1] out 1"}
    finally:
        job.kill()


def test_attach_shows_it_to_its_end(tmp_path):
    with held(tmp_path) as (job, _):
        line = [*PROCESSION, "attach", job.run_id]
        with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as attached:
            until(lambda: job._reach.visited, "somebody at the door")
            job.send_signal(1, signal.SIGKILL)
            _, err = attached.communicate(timeout=30)
        assert attached.returncode == 137
        assert b"rank 1 of 4" in err


def test_logs_of_the_directory_of_a_job(tmp_path):
    script = 'echo "out $RANK"; echo "err $RANK" >&2'
    logs = Logs(dir=str(tmp_path / "runs"), redirect=Std.ALL)
    procession.run(["sh", "-c", script], engine=LocalEngine(2), nproc=2, logs=logs)
    (folder,) = (tmp_path / "runs").iterdir()
    said = run_procession("logs", str(folder))
    assert (said.returncode, said.stderr) == (
        0,
        "".join(f"[{r // 2}:{r}] err {r}\n" for r in range(4)),
    )
    assert said.stdout == "".join(f"[{r // 2}:{r}] out {r}\n" for r in range(4))
    assert run_procession("logs", str(folder), "--rank", "3", "--stdout").stdout == "out 3\n"


def test_on_a_node_it_is_said_what_its_ranks_belong_to(tmp_path):
    """A node sees no part that it could steer, but what the ranks there are part of."""
    there = {"PROCESSION_DRIVER": "n77"}
    with held(tmp_path, engine=ElsewhereDriven(2, env=there), control=None) as (job, _):
        processes = {process.pid for process in job.driver.engine.processes.values()}
        rows = json.loads(run_procession("ps", "--json").stdout)
        parts = [row for row in rows if row["launcher"] in processes]
        assert [(row["id"], row["state"], row["host"]) for row in parts] == [
            (job.run_id, "PART", "n77")
        ] * 2
        done = run_procession("stop", job.run_id)
        assert done.returncode == 2
        assert "which is one run, driven from n77" in done.stderr
        assert f"type `procession stop {job.run_id}` there" in done.stderr


class ElsewhereDriven(LocalEngine):
    """Tells its node processes that their driver is on another machine."""

    def start(self, command, tell):
        super().start(command.__replace__(env={**command.env, **self.env}), tell)


def test_a_run_of_another_machine_in_a_shared_directory(tmp_path, monkeypatch):
    with held(tmp_path, logs=Logs(dir=str(tmp_path / "runs"))) as (job, _):
        monkeypatch.setattr(runs, "_here", lambda: "login1")
        monkeypatch.setattr(runs, "living", list)
        run = find_run(job.run_id)
        assert (run.state, run.host, run.launcher) == ("AWAY", HERE, 0)
        assert find_run(job.run_dir).state == "AWAY"
    assert find_run(job.run_id).state == "STOPPED"


def test_where_all_ranks_were_when_it_was_stopped(tmp_path, capfd):
    how = {"logs": Logs(all_output=False), "stop": Stop(signal=signal.SIGINT, grace=20)}
    with held(tmp_path, program=hold_and_complain, **how) as (job, _):
        done = run_procession("stop", job.run_id, "--signal", "INT")
        assert done.returncode == 0
        assert job.wait(30).state is Phase.STOPPED
        assert done.stdout.endswith(f" code 130\n{WHERE}")
        assert job.end.stacks == ("4 ranks [0-3] wait for a signal",)
        unshown = {end.rank: (end.unshown, end.unshown_errors) for end in job.end.ended}
        assert unshown == dict.fromkeys(range(4), (1, ("RuntimeError: closed by peer",)))
    shown = capfd.readouterr()
    assert shown.out.count("I save") == 4
    assert "RuntimeError" not in shown.err
