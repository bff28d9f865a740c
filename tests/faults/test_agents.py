"""An agent that does not answer, or is killed: the launcher ends the group all the same."""

import contextlib
import fcntl
import os
import resource
import signal
import subprocess
import sys
import threading
import time

import pytest

import procession
from chaos.processes import held, parent, state
from procession import GroupFailed, Hang, Outcome, Phase, Restart
from seams.agent import Agent, Machine, link, run
from seams.system import Remains
from support import (
    METHODS,
    OBEDIENT,
    QUICK,
    Launcher,
    alive,
    failure_of,
    gone,
    marked,
    run_python,
    shell,
    until,
    write,
)

SOON = 8.0  # seconds; a missed answer costs one or two


@contextlib.contextmanager
def traced(pid):
    """Hold a process by a debugger; SIGKILL ends it at once, no other signal reaches it."""
    with held(pid) as there:
        if not there:
            pytest.skip("this user may not trace processes")
        until(lambda: state(pid) == "t", "the stop by a debugger")
        yield


def agent_of(group):
    return parent(group.pids()[0])


def family(place):
    """Be a rank with a child, and a daemon in a session of its own."""

    def stay(name):
        with open(f"{place}/{name}.pid.new", "w") as f:
            f.write(str(os.getpid()))
        os.rename(f"{place}/{name}.pid.new", f"{place}/{name}.pid")
        while True:  # a signal right before `signal.pause()` would wake nobody
            time.sleep(0.02)

    rank = os.environ["RANK"]
    if not os.fork():
        stay(f"child{rank}")
    if not os.fork():
        os.setsid()
        if os.fork():
            os._exit(0)
        stay(f"daemon{rank}")
    stay(f"rank{rank}")


def start_family(place, nproc=2, **options):
    os.makedirs(place, exist_ok=True)
    group = procession.start(family, args=(str(place),), nproc=nproc, **options)
    until(lambda: len(list(place.glob("*.pid"))) == 3 * nproc, "all processes")
    return group


def pids_in(place):
    return [int(path.read_text()) for path in place.glob("*.pid")]


# -- it does not answer


def test_who_failed_is_named_and_all_are_ended_though_the_agent_is_held(tmp_path):
    """It is killed, and its ranks die with it; what else they have started is found."""
    group = start_family(tmp_path, nproc=3)
    everything = pids_in(tmp_path)
    with traced(agent_of(group)):
        os.kill(group.pids()[2], signal.SIGKILL)
        with pytest.raises(GroupFailed) as caught:
            group.wait(20)
        gone(everything)
    assert [end.rank for end in caught.value.failures] == [2]
    assert caught.value.cause.exit.signal == signal.SIGKILL
    assert {e.rank: e.exit.signal for e in caught.value.ended} == dict.fromkeys((0, 1), 9)
    assert "it did not answer for 2 s" in str(caught.value)


def test_an_agent_without_descriptors_tells_how_a_rank_ended(tmp_path):
    """Whatever it cannot do afterwards."""
    group = start_family(tmp_path)
    resource.prlimit(agent_of(group), resource.RLIMIT_NOFILE, (0, 4096))
    os.kill(group.pids()[0], signal.SIGKILL)
    with pytest.raises(GroupFailed) as failed:
        group.wait(timeout=20)
    assert (failed.value.cause.rank, failed.value.cause.outcome) == (0, Outcome.SIGNALLED)


def test_a_rank_that_obeys_has_not_failed_though_its_agent_cannot_tell_of_the_signal():
    """The agent is stopped when it should."""
    group = procession.start(["sleep", "100"], nproc=1, stop=OBEDIENT)
    with traced(agent_of(group)):
        group.stop(wait=False)
        os.kill(group.pids()[0], signal.SIGTERM)
        assert group.wait(20).state is Phase.STOPPED


def test_a_rank_that_has_died_does_not_hang_though_its_agent_cannot_tell_of_it():
    hang = Hang(timeout=0.3)  # less than the launcher waits for an agent

    def beat():
        while True:
            procession.beat(1)
            time.sleep(0.01)

    group = procession.start(beat, nproc=2, hang=hang)
    until(lambda: all(rank["beats"] for rank in group.look()["ranks"]), "the beats")
    with traced(agent_of(group)):
        os.kill(group.pids()[0], signal.SIGKILL)
        with pytest.raises(GroupFailed) as caught:
            group.wait(20)
    assert (caught.value.cause.rank, caught.value.cause.outcome) == (0, Outcome.SIGNALLED)


def test_next_attempt_has_another_agent(tmp_path):
    """A group that is to start again does so without the one that did not answer."""
    group = start_family(tmp_path, restart=procession.Restart(max=1))
    server = agent_of(group)
    with traced(server):
        for path in tmp_path.glob("*.pid"):
            path.rename(path.with_suffix(".old"))
        os.kill(group.pids()[0], signal.SIGKILL)
        until(lambda: len(list(tmp_path.glob("*.pid"))) == 6, "the second attempt")
        assert agent_of(group) != server
        gone(int(path.read_text()) for path in tmp_path.glob("*.old"))
    group.stop()
    gone(pids_in(tmp_path))


# -- it is lost, or stopped, at an odd moment


# It waits in its first attempt, and comes to a good end in its second.
WAITS_ONCE = shell("test $TORCHELASTIC_RESTART_COUNT = 1 || exec sleep 1000")


def test_there_is_no_agent_for_the_next_attempt(monkeypatch):
    group = procession.start(WAITS_ONCE, nproc=2, restart=Restart(max=1))
    server = agent_of(group)
    monkeypatch.setattr(os, "posix_spawn", lambda *_, **__: os.rmdir("/proc"))  # raises OSError
    os.kill(server, signal.SIGKILL)
    with pytest.raises(GroupFailed, match="could not find an agent"):
        group.wait(20)


def test_what_is_decided_when_it_is_lost_is_decided_once():
    asked = []

    def on_failure(end):
        asked.append(end)
        os.kill(server, signal.SIGKILL)
        time.sleep(0.5)  # until the loss is noticed

    group = procession.start(WAITS_ONCE, nproc=2, restart=Restart(max=1), on_failure=on_failure)
    server = agent_of(group)
    os.kill(group.pids()[1], signal.SIGKILL)
    group.wait(20)
    assert len(asked) == 1


def test_something_does_not_go_after_it_is_lost(monkeypatch, tmp_path):
    monkeypatch.setattr(Remains, "over", False)
    stop = procession.Stop(grace=1000, reap=0.1)
    stays = shell(f"trap '' TERM; touch {tmp_path}/there; exec sleep 1000")
    group = procession.start(stays, nproc=1, stop=stop)
    until((tmp_path / "there").exists, "the rank")
    group.stop(wait=False)
    until(lambda: group.state is Phase.STOPPING, "the stop")
    os.kill(agent_of(group), signal.SIGKILL)
    group.wait(20)
    assert "[P408]" in " ".join(group.end.notes)


@pytest.mark.parametrize("stacks", [True, False], ids=["for stacks", "to start again"])
def test_one_that_is_stopped_is_woken_when_it_is_asked(stacks):
    def beat():
        procession.beat(1)
        signal.pause()

    def on_failure(_end):
        os.kill(server, signal.SIGSTOP)

    options = {"hang": Hang(timeout=0.3)} if stacks else {"on_failure": on_failure}
    group = procession.start(beat, nproc=2, **options)
    server = agent_of(group)
    os.kill(server if stacks else group.pids()[1], signal.SIGSTOP if stacks else signal.SIGKILL)
    with pytest.raises(GroupFailed):
        group.wait(20)


@pytest.mark.parametrize("has_run", [False, True])
def test_one_that_is_busy(monkeypatch, has_run):
    """It is waited for as long as it gets no CPU."""

    def look_late(*words, take=run.WISHES["look"]):
        sum(range(10**8))
        take(*words)

    monkeypatch.setitem(run.WISHES, "look", look_late)  # in the agent, a fork of this one
    monkeypatch.setattr(link, "ANSWER_SECONDS", 0.1)
    monkeypatch.setattr(link, "read", lambda _: str(time.monotonic_ns() * has_run))
    with procession.start(signal.pause, nproc=2, start_method="fork", stop=QUICK) as group:
        assert len(group.stacks(60)) == (0 if has_run else 2)


# -- it hangs while it starts ranks


HANGS = """
    import os, time
    open(os.path.join(os.path.dirname(__file__), "hangs"), "w").close()
    time.sleep(600)
"""


def test_interrupt_while_a_preload_hangs(tmp_path, monkeypatch):
    write(tmp_path / "hangs.py", HANGS)
    monkeypatch.syspath_prepend(tmp_path)

    def press():
        until((tmp_path / "hangs").exists, "the import")
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=press)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        procession.run(print, nproc=2, preload=["hangs"])
    thread.join()


def test_one_that_was_held_is_reaped_by_a_launch_that_starts_none():
    procession.run(os.getpid, nproc=1)  # leaves an idle one
    quick = procession.Stop(grace=0.2)
    group = procession.start(signal.pause, nproc=1, env={"PYTHONPATH": "/other"}, stop=quick)
    server = agent_of(group)
    with traced(server):
        group.stop()
    assert state(server) == "Z"  # it was killed, and could not be reaped while it was held
    procession.run(os.getpid, nproc=1)
    assert not os.path.exists(f"/proc/{server}")


# -- it is stopped while it starts ranks


def test_an_agent_that_is_stopped_while_a_group_starts_goes_on(tmp_path, monkeypatch):
    write(tmp_path / "stops.py", "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)")
    monkeypatch.syspath_prepend(tmp_path)
    assert procession.run(int, nproc=2, preload=["stops"], hang=Hang(start=60)) == [0, 0]


@pytest.mark.long
def test_an_agent_that_stays_stopped_while_a_group_starts_is_named(tmp_path, monkeypatch):
    """Long before the limit of the start, which is for imports that take their time."""
    write(
        tmp_path / "waits.py",
        f"""
        import os, time
        with open({str(tmp_path / "new")!r}, "w") as f:
            f.write(str(os.getpid()))
        os.rename({str(tmp_path / "new")!r}, {str(tmp_path / "pid")!r})
        while not os.path.exists({str(tmp_path / "never")!r}):
            time.sleep(0.01)
        """,
    )
    monkeypatch.syspath_prepend(tmp_path)
    raised = []

    def launch():
        options = {"nproc": 2, "preload": ["waits"], "hang": Hang(start=60)}
        raised.append(failure_of(int, procession.StartFailed, **options))

    thread = threading.Thread(target=launch)
    thread.start()
    until(lambda: (tmp_path / "pid").exists(), "the import")
    server = int((tmp_path / "pid").read_text())
    with traced(server):
        thread.join(30)
        assert not thread.is_alive()
    assert f"its agent (pid {server}) is gone (it is stopped" in str(raised[0])
    assert procession.run(int, nproc=2) == [0, 0]


# -- code of users

FORKED = """
    import gc, os, procession, signal
    launcher = os.getpid()

    class Garbage:
        def __init__(self):
            self.itself = self

        def __del__(self):
            note("finalizer")

    def note(*what):
        if os.getppid() == launcher:
            print(*what, file=open("notes", "a"))

    os.chdir(os.path.dirname(os.path.abspath(__file__)))
    os.register_at_fork(before=Garbage)
    signal.signal(signal.SIGCONT, note)
    gc.set_threshold(20)
    group = procession.start(signal.pause, nproc=20, start_method="fork")
    group.stop()
"""


def test_what_users_have_installed_does_not_run_in_one_that_has_ranks(tmp_path):
    """It is a fork of their process: a finalizer could wait for a lock of another thread."""
    done = run_python(write(tmp_path / "main.py", FORKED))
    assert (done.returncode, (tmp_path / "notes").exists()) == (0, False), done.stderr


# -- it is killed


@pytest.mark.parametrize("method", METHODS)
def test_a_killed_agent_leaves_no_daemon(tmp_path, method):
    """While the launcher lives, nothing stays, also where only its mark tells whose it is."""
    group = start_family(tmp_path, start_method=method)
    os.kill(agent_of(group), signal.SIGKILL)
    with pytest.raises(GroupFailed) as caught:
        group.wait(20)
    assert [pid for pid in pids_in(tmp_path) if alive(pid)] == []
    assert "was lost" in str(caught.value)
    assert "may be left" not in str(caught.value)


@pytest.mark.parametrize("method", METHODS)
def test_launcher_killed_while_its_agent_is_stopped(tmp_path, method):
    """A parent-death signal wakes it, and it ends what is below it."""
    script = write(
        tmp_path / "main.py",
        f"""
        import procession, signal
        group = procession.start(signal.pause, nproc=2, start_method={method!r})
        with open(f"/proc/{{group.pids()[0]}}/stat") as f:
            print("forkserver", f.read().rpartition(")")[2].split()[1], flush=True)
        group.wait()
        """,
    )
    with Launcher(script) as launcher:
        server = int(launcher.said("forkserver"))
        os.kill(server, signal.SIGSTOP)
        until(lambda: state(server) == "T", "the stop")
        launcher.signal(signal.SIGKILL)
        until(lambda: not marked(), "the end of all processes")


def test_launcher_killed_while_its_agent_is_in_an_import(tmp_path):
    """An import that hangs, or takes a minute, keeps nothing alive: no process, and no file."""
    write(
        tmp_path / "endless.py",
        "import os, time; print(os.getpid(), file=open('importing', 'w')); time.sleep(1000)",
    )
    script = write(
        tmp_path / "main.py",
        """
        import os, procession
        os.chdir(os.path.dirname(os.path.abspath(__file__)))
        os.mkdir("scratch")
        os.environ["TMPDIR"] = os.path.abspath("scratch")
        print("begins", flush=True)
        procession.run(print, nproc=2, preload=["endless"])
        """,
    )
    with Launcher(script) as launcher:
        launcher.said("begins")
        importing = tmp_path / "importing"
        until(lambda: importing.exists() and importing.read_text().strip(), "the import")
        launcher.signal(signal.SIGKILL)
        until(lambda: not marked(), "the end of all processes")
    assert os.listdir(tmp_path / "scratch") == []


def test_launcher_killed_when_its_agent_is_idle_already(tmp_path):
    """One of both removes what the ranks had."""
    script = write(
        tmp_path / "main.py",
        """
        import os, procession, signal
        from procession.agent.client import Agent
        def send_and_die(agent, message, *more):
            send(agent, message, *more)
            if message[0] == "idle":
                os.kill(os.getpid(), signal.SIGKILL)
        send, Agent.send = Agent.send, send_and_die
        os.environ["TMPDIR"] = os.path.dirname(os.path.abspath(__file__)) + "/scratch"
        os.mkdir(os.environ["TMPDIR"])
        procession.run(os.listdir, args=(os.environ["TMPDIR"],), nproc=2)
        """,
    )
    with Launcher(script) as launcher:
        assert launcher.end() == -signal.SIGKILL
        until(lambda: not marked(), "the end of all processes")
    assert os.listdir(tmp_path / "scratch") == []


@pytest.mark.parametrize("words", [(), ("-m", "procession", "run", "-x", "PYTHONHASHSEED=1")])
def test_a_launch_whose_ranks_have_variables_of_the_interpreter_has_one_agent(tmp_path, words):
    """Its agent starts first of all: not one that nobody can use."""
    program = """
        import os, procession, signal, sys
        from chaos.processes import children, parent

        signal.signal(signal.SIGCHLD, signal.SIG_IGN)

        def look():
            return children(parent(os.getppid())) == [os.getppid()]

        if "RANK" not in os.environ:
            print(*procession.run(look, env={"PYTHONHASHSEED": "1"}))
        else:
            print(look())
    """
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = run_python(*words, write(tmp_path / "main.py", program), env=env)
    assert done.stdout == "True\n", done.stderr


@pytest.mark.long
@pytest.mark.torch
@pytest.mark.timeout(200)  # eight imports of torch
def test_an_idle_agent_that_gives_its_memory_back_is_not_used():
    """From the signal that kills it until its socket is closed, which takes milliseconds."""
    for _ in range(4):
        first = procession.run(os.getppid, nproc=1, preload=["torch"])
        os.kill(first[0], signal.SIGKILL)
        assert procession.run(os.getppid, nproc=1, preload=["torch"]) != first
        procession.forkserver.close()


def test_an_idle_agent_that_was_stopped_serves_the_next_launch():
    first = procession.run(os.getppid, nproc=1)
    os.kill(first[0], signal.SIGSTOP)
    assert procession.run(os.getppid, nproc=1, hang=Hang(start=SOON)) == first


CLOSES_ALL = """
import os, procession

def work():
    return 1

if __name__ == "__main__":
    for _ in range(3):
        assert procession.run(work, nproc=2) == [1, 1]
        os.closerange(3, 1000)  # as daemons do; an idle agent's socket is among them
        files = [os.open("/dev/null", os.O_RDONLY) for _ in range(20)]
    assert procession.run(work, nproc=2) == [1, 1]
    procession.forkserver.close()
    assert all(os.fstat(fd) for fd in files)
    try:
        os.wait()
    except ChildProcessError:
        print("no child is left")
"""


def test_a_program_that_closes_all_descriptors(tmp_path):
    done = run_python(write(tmp_path / "closes_all.py", CLOSES_ALL), timeout=60)
    assert (done.returncode, done.stdout) == (0, "no child is left\n"), done.stderr


def test_what_a_rank_has_left_ends_when_it_starts_again(tmp_path):
    """Its sleep holds a lock, for which the rank waits in its next life."""

    def work():
        if os.environ["RANK"] == "1":
            until((tmp_path / "done").exists, "rank 0 in its second life")
            return
        with open(tmp_path / "lock", "w") as lock:
            if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
                fcntl.flock(lock, fcntl.LOCK_EX)
                subprocess.Popen(["sleep", "1000"], pass_fds=[lock.fileno()])
                os._exit(3)

            fcntl.flock(lock, fcntl.LOCK_EX)
        (tmp_path / "done").touch()

    procession.run(work, nproc=2, restart=Restart(max=1, backoff=0.01, scope="rank"))


def test_a_stop_before_it_was_heard_that_the_imports_are_done(tmp_path, monkeypatch):
    """Its ranks run: they are asked to end, and not killed with it."""
    stops, receive, stop = threading.Event(), Agent.receive, Machine.stop

    def begin_to_stop(machine, *request):
        stops.set()
        stop(machine, *request)

    def obey():
        signal.signal(signal.SIGTERM, lambda *_: (tmp_path / "asked").touch())
        (tmp_path / "there").touch()
        until((tmp_path / "asked").exists)

    def interrupt():
        until((tmp_path / "there").exists)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(Agent, "receive", lambda self: receive(self) if stops.is_set() else [])
    monkeypatch.setattr(Machine, "stop", begin_to_stop)
    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        procession.start(obey, nproc=1, preload=["csv"])
    thread.join()
    assert (tmp_path / "asked").exists()
