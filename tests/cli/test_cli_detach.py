"""Runs that give the terminal back, coming back to them, and what is left of killed launchers."""

import json
import os
import signal

import pytest
from commandline import Terminal, Watched, command

from support import START_PATIENCE, alive, gone, reader_of, until, write

WAIT = """
    import os, pathlib, sys, time
    print("ready", os.environ["RANK"])
    pathlib.Path(sys.argv[1], os.environ["RANK"]).write_text(f"{os.getpid()} {os.getppid()}\\n")
    while not os.path.exists(sys.argv[1] + "/go"):
        time.sleep(0.01)
    print("went")
"""


@pytest.fixture
def waiting(tmp_path):
    (tmp_path / "pids").mkdir()
    return write(tmp_path / "wait.py", WAIT), tmp_path / "pids"


def detached(*words, **options):
    done = command("run", "--detach", *words, **options)
    assert done.returncode == 0, done.stderr
    (run,) = done.stdout.split()
    assert f"procession attach {run}" in done.stderr
    return run


def look(run):
    (row,) = [r for r in json.loads(command("ps", "--json").stdout) if r["id"] == run]
    return row


def test_detached_and_back_again(waiting):
    run = detached("-n", 2, *waiting)
    row = look(run)
    launcher = row["launcher"]
    assert os.getsid(launcher) == launcher
    assert row["run_dir"].startswith(os.environ["XDG_STATE_HOME"])
    os.kill(launcher, signal.SIGHUP)  # the terminal has gone
    with Watched("attach", run) as attached:
        attached.shows(b"[0] ready 0", b"[1] ready 1")
        (waiting[1] / "go").touch()
        assert attached.end() == 0
        assert b"[1] went" in attached.out
        assert b"finished: 2 ranks" in attached.err
    gone([launcher])
    files = set(os.listdir(row["run_dir"]))
    assert files >= {"console.log", "report.txt", "result.json", "run.json", "events.jsonl"}
    assert "[0] went" in command("logs", run).stdout
    of_one = command("logs", run, "--rank", "0")
    assert of_one.returncode == 1
    assert f"all of its output is in {row['run_dir']}/console.log" in of_one.stderr
    assert command("attach", run).returncode == 0


def look_ended(run):
    (row,) = [r for r in json.loads(command("ps", "--all", "--json").stdout) if r["id"] == run]
    return row


def test_a_start_that_fails_is_told(tmp_path):
    lost = write(tmp_path / "lost", "#!/no/such/interpreter")
    lost.chmod(0o755)
    done = command("run", "--detach", "-n", 2, lost)
    assert done.returncode not in (0, 2)
    assert "lost failed: rank" in done.stderr
    done = command("run", "--detach", "no-such-program")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    done = command("run", "--detach", "--log-dir", "/dev/null/x", "true")
    assert done.returncode == 2
    assert "--log-dir: '/dev/null' is not a directory" in done.stderr
    nowhere = {n: v for n, v in os.environ.items() if n != "XDG_STATE_HOME"}
    done = command("run", "--detach", "true", env={**nowhere, "HOME": "/proc/none"})
    assert done.returncode == 2
    assert "--detach '/proc/none" in done.stderr


def test_control_c_while_it_starts(tmp_path):
    """It starts for as long as the agent imports what it is told to preload."""
    source = f"import time; open({str(tmp_path / 'importing')!r}, 'w').close(); time.sleep(3)"
    write(tmp_path / "slow_to_import.py", source)
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    script = write(tmp_path / "s" / "s.py", "print('it ran')")
    words = ("run", "--detach", "-n", 2, "--preload", "slow_to_import", script)
    with Watched(*words, env=env) as starting:
        until((tmp_path / "importing").exists, "the import", START_PATIENCE)
        starting.signal(signal.SIGINT)
        assert starting.end() == 130
        assert b"it ran" not in starting.out
    assert "s.py" not in [row["name"] for row in json.loads(command("ps", "--json").stdout)]


def test_control_c_in_attach_leaves_the_run_alone(waiting):
    run = detached("-n", 2, *waiting)
    launcher = look(run)["launcher"]
    with Terminal("attach", run) as terminal:
        terminal.shows(b"[0] ready 0", b"[1] ready 1")
        terminal.type(b"\x03")
        assert terminal.end() == 0
        assert b" continues; stop with " in terminal.screen
    assert alive(launcher)
    assert command("stop", run).returncode == 0


# -- killed launchers


def test_killed_launcher_is_told_apart_and_cleaned(waiting):
    run = detached("-n", 2, *waiting)
    launcher = look(run)["launcher"]
    socket = os.path.join(os.environ["XDG_RUNTIME_DIR"], "procession", run)
    os.kill(launcher, signal.SIGKILL)
    gone([launcher])
    assert os.path.exists(socket)
    assert look_ended(run)["state"] == "LOST"
    assert not os.path.exists(socket)  # whoever lists removes it
    assert command("attach", run).returncode == 1
    done = command("report", run)
    assert (done.returncode, "was killed" in done.stderr) == (1, True)


LEAVE = """
    import os, pathlib, signal, sys, time
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if not os.fork():
        os.setsid()
        if os.fork():
            os._exit(0)
        pathlib.Path(sys.argv[1]).write_text(f"{os.getpid()} {os.getppid()}\\n")
        time.sleep(3600)
    print(f"agent {os.getppid()}")
    time.sleep(3600)
"""


@pytest.mark.long
def test_clean_ends_what_a_killed_launcher_and_agent_left(tmp_path, waiting):
    leave = write(tmp_path / "leave.py", LEAVE)
    living = detached("-n", 2, *waiting)
    living_ranks = [r["pid"] for r in look(living)["ranks"]]
    with Watched("run", leave, tmp_path / "daemon") as launcher:
        launcher.shows(b"agent")
        daemon, *_ = until(reader_of(tmp_path / "daemon"), "the daemon")
        agent = int(launcher.out.split()[1])
        os.kill(launcher.pid, signal.SIGSTOP)
        os.kill(agent, signal.SIGKILL)
        os.kill(launcher.pid, signal.SIGKILL)
        launcher.process.wait()
        scratch = [n for n in os.listdir(os.environ["TMPDIR"]) if n.startswith("procession_leave")]
        try:
            assert alive(daemon)
            assert len(scratch) == 1
            done = command("clean", "--dry-run")
            assert f"would end pid {daemon} " in done.stdout
            assert scratch[0] in done.stdout
            assert alive(daemon)
            done = command("clean")
            assert done.returncode == 0, done.stdout
            assert f"ended pid {daemon} " in done.stdout
            assert "removed the socket of leave.py_" in done.stdout
            assert scratch[0] in done.stdout
            gone([daemon])
        finally:
            if alive(daemon):  # it holds our pipes
                os.kill(daemon, signal.SIGKILL)
    assert not [n for n in os.listdir(os.environ["TMPDIR"]) if n.startswith("procession_leave")]
    assert all(map(alive, living_ranks))  # that run is none of its business
    assert str(daemon) not in command("clean").stdout
    assert command("stop", living).returncode == 0
