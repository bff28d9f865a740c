"""However the launcher or the forkserver goes, nothing of the group stays."""

import os
import signal
import textwrap
import time

import pytest

import procession
from procession import GroupFailed, Outcome, Phase
from support import (
    OBEDIENT,
    SAY_WHEN_IN,
    Launcher,
    alive,
    gone,
    marked,
    run_python,
    until,
    write,
)

METHODS = ("forkserver", "spawn", "fork")

# Ranks with a child that ignores SIGTERM and a daemon in a session of its own.
FAMILY = """
    import os, signal, sys, time, procession

    def family(ready):
        import os, signal, time
        def stay():
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            open(ready + str(os.getpid()), "w").close()
            while True:
                time.sleep(100)
        if not os.fork():
            stay()
        if not os.fork():
            os.setsid()
            if os.fork():
                os._exit(0)
            stay()
        stay()

    def launch(**options):
        place = os.environ["READY"] + "/"
        group = procession.start(family, args=(place,), nproc=2, **options)
        while len(os.listdir(place)) < 6:
            time.sleep(0.002)
        return group
"""


class Family:
    """A launcher whose group has six processes."""

    def __init__(self, tmp_path, source, **env):
        self.ready = tmp_path / "ready"
        self.ready.mkdir()
        script = tmp_path / "main.py"
        script.write_text(textwrap.dedent(FAMILY) + textwrap.dedent(source))
        env = {**os.environ, "READY": str(self.ready), **env}
        self.launcher = Launcher(script, env=env)

    def pids(self):
        return [int(p.name) for p in self.ready.iterdir()]

    def __enter__(self):
        self.launcher.__enter__()
        return self

    def __exit__(self, *exc):
        self.launcher.__exit__(*exc)


def mark():
    return f"PROCESSION_TEST={os.environ['PROCESSION_TEST']}"


@pytest.mark.parametrize("method", METHODS)
def test_killed_launcher(tmp_path, method):
    source = f"""
        group = launch(start_method={method!r})
        print("started", flush=True)
        group.wait()
    """
    with Family(tmp_path, source) as family:
        family.launcher.said("started")
        assert len(family.pids()) == 6
        family.launcher.signal(signal.SIGKILL)
        assert family.launcher.process.wait(10) == -signal.SIGKILL
        until(lambda: not marked(mark()), "the end of all processes")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_launcher_that_dies_of_another_signal(tmp_path, number):
    """The library installs no handlers: the launcher dies at once, and all of the group with it."""
    source = """
        group = launch()
        print("started", flush=True)
        group.wait()
    """
    with Family(tmp_path, source) as family:
        family.launcher.said("started")
        family.launcher.signal(number)
        assert family.launcher.process.wait(10) == -number
        until(lambda: not marked(mark()), "the end of all processes")


@pytest.mark.parametrize("how", ["os._exit(7)", "os.execv('/bin/true', ['true'])", "os.abort()"])
def test_launcher_that_leaves_without_a_word(tmp_path, how):
    with Family(tmp_path, f"launch(); {how}") as family:
        family.launcher.end()
        until(lambda: not marked(mark()), "the end of all processes")
        assert len(family.pids()) == 6


@pytest.mark.parametrize("method", METHODS)
def test_interpreter_exit_ends_a_running_group(tmp_path, method):
    source = f"""
        group = launch(start_method={method!r}, stop=procession.Stop(grace=0.2))
        print("leaving", flush=True)
    """
    with Family(tmp_path, source) as family:
        assert family.launcher.end() == 0
        assert family.launcher.lines == ["leaving"]
        assert not any(alive(p) for p in family.pids())
        assert len(family.pids()) == 6


def test_interpreter_exit_waits_for_what_a_group_that_has_ended_still_writes(tmp_path):
    main = write(
        tmp_path / "main.py",
        """
        import sys, threading, time, procession
        from pathlib import Path

        ended = threading.Event()

        def slow(event):
            if event.kind == "succeeded":
                ended.set()
                time.sleep(0.5)  # the supervisor waits for its handlers before it concludes

        group = procession.start(["true"], logs=procession.Logs(dir=sys.argv[1]))
        group.subscribe(slow)
        ended.wait(20)
        assert group.state.final and not Path(group.run_dir, "result.json").exists()
        """,
    )
    done = run_python(main, tmp_path / "logs")
    assert (done.returncode, done.stderr) == (0, "")
    assert len([*tmp_path.glob("logs/*/result.json")]) == 1


def test_exception_in_the_launcher_ends_a_running_group(tmp_path):
    source = """
        group = launch(stop=procession.Stop(grace=0.2))
        raise SystemExit(9)
    """
    with Family(tmp_path, source) as family:
        assert family.launcher.end() == 9
        assert not any(alive(p) for p in family.pids())


def test_launcher_and_its_forkserver_killed_in_the_order_that_is_worse(tmp_path):
    """Ranks themselves have a parent-death signal; what they started is found by its mark."""
    source = """
        group = procession.start(["sleep", "1000"], nproc=3)
        with open(f"/proc/{group.pids()[0]}/stat") as f:
            print("forkserver", f.read().rpartition(")")[2].split()[1], flush=True)
        group.wait()
    """
    # Nobody is left who could remove the scratch directory.
    with Family(tmp_path, source, TMPDIR=str(tmp_path)) as family:
        forkserver = int(family.launcher.said("forkserver"))
        os.kill(forkserver, signal.SIGSTOP)
        family.launcher.signal(signal.SIGKILL)
        os.kill(forkserver, signal.SIGKILL)
        until(lambda: not marked(mark()), "the end of all processes")


INTERRUPTED = f"""
    {textwrap.indent(SAY_WHEN_IN, " " * 4).strip()}
    say_when_in("_wait_for")
    try:
        group.wait()
    except KeyboardInterrupt:
        print("interrupted", group.state.name, flush=True)
        raise
"""


@pytest.mark.parametrize("method", METHODS)
def test_interrupt_stops_the_group_and_is_raised(tmp_path, method):
    source = f"""
    def pause():
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        open(os.environ["READY"] + "/" + os.environ["RANK"], "w").close()
        while True:
            signal.pause()
    group = procession.start(pause, nproc=2, start_method={method!r})
    while len(os.listdir(os.environ["READY"])) < 2:
        time.sleep(0.001)
    print(*group.pids().values())
    """
    with Family(
        tmp_path, source.replace("\n    ", "\n") + INTERRUPTED.replace("\n    ", "\n")
    ) as f:
        f.launcher.said("waits")
        pids = [int(p) for p in f.launcher.lines[0].split()]
        f.launcher.signal(signal.SIGINT)
        assert f.launcher.end() == -signal.SIGINT
        assert "interrupted STOPPED" in f.launcher.lines
        gone(pids)


def test_second_interrupt_kills_the_group(tmp_path):
    source = """
    group = launch(stop=procession.Stop(grace=1000))
    group.subscribe(lambda e: e.kind == "stop_sent" and print("asked", flush=True))
    """
    source = textwrap.dedent(source) + textwrap.dedent(INTERRUPTED)
    with Family(tmp_path, source) as family:
        family.launcher.said("waits")
        family.launcher.signal(signal.SIGINT)
        # The ranks ignore the stop signal: only when it was sent is the second one a second one.
        family.launcher.said("asked")
        assert alive(family.launcher.pid)
        assert all(alive(p) for p in family.pids())
        before = time.monotonic()
        family.launcher.signal(signal.SIGINT)
        assert family.launcher.end() == -signal.SIGINT
        assert time.monotonic() - before < 5
        assert "interrupted STOPPED" in family.launcher.lines
        gone(family.pids())


def test_interrupt_while_a_group_starts(tmp_path):
    """Many launches, interrupted at some moment: each ends, and leaves nothing."""
    script = write(
        tmp_path / "main.py",
        """
        import procession
        procession.run(["true"], nproc=8)  # Python's importer loses an interrupt at some moments
        print("going", flush=True)
        while True:
            with procession.start(["sleep", "0.001"], nproc=8) as group:
                group.wait()
        """,
    )
    for delay in range(5):
        with Launcher(script) as launcher:
            launcher.said("going")
            time.sleep(0.03 * delay)
            launcher.signal(signal.SIGINT)
            assert launcher.end() == -signal.SIGINT
            assert launcher.lines[-1] == "KeyboardInterrupt"
        until(lambda: not marked(mark()), "the end of all processes")


# -- the forkserver


def forkserver_of(group):
    with open(f"/proc/{group.pids()[0]}/stat") as f:
        return int(f.read().rpartition(")")[2].split()[1])


@pytest.mark.parametrize("method", METHODS)
def test_killed_forkserver_fails_the_group(method):
    def pause():
        while True:
            signal.pause()

    group = procession.start(pause, nproc=3, start_method=method, stop=OBEDIENT)
    server = forkserver_of(group)
    os.kill(server, signal.SIGKILL)
    with pytest.raises(GroupFailed) as caught:
        group.wait(10)
    gone(group.pids().values())
    assert len(caught.value.failures) + len(caught.value.ended) == 3
    assert f"the forkserver (pid {server}) was lost" in str(caught.value)
    assert procession.run(os.getppid, nproc=1)[0] not in (0, server)


def test_killed_forkserver_of_commands_that_ignore_everything():
    program = ["sh", "-c", "trap '' TERM HUP INT; while :; do sleep 0.02; done"]
    group = procession.start(program, nproc=2)
    os.kill(forkserver_of(group), signal.SIGKILL)
    with pytest.raises(GroupFailed) as caught:
        group.wait(10)
    assert caught.value.cause.outcome is Outcome.ORPHANED
    gone(group.pids().values())


def test_killed_forkserver_at_rest_is_not_missed():
    pid = procession.run(os.getppid)[0]
    os.kill(pid, signal.SIGKILL)
    gone([pid])
    other = procession.run(os.getppid)[0]
    assert other != pid


def test_stopped_forkserver_does_not_hold_a_stop():
    group = procession.start(
        ["sleep", "100"], nproc=2, stop=procession.Stop(grace=0.1, reap=0.2, linger=0.1)
    )
    server = forkserver_of(group)
    os.kill(server, signal.SIGSTOP)
    before = time.monotonic()
    group.stop()
    assert time.monotonic() - before < 5
    assert group.state.final
    gone([server, *group.pids().values()] if group.state is Phase.FAILED else group.pids().values())


def test_signals_to_the_launchers_process_group_do_not_reach_the_ranks(tmp_path):
    """Ctrl-C of a terminal goes to the launcher alone, which decides."""
    script = write(
        tmp_path / "main.py",
        """
        import os, procession, signal, sys
        signal.signal(signal.SIGINT, lambda *_: print("mine", flush=True))
        with procession.start(["sleep", "100"], nproc=2) as group:
            print("started", flush=True)
            signal.pause()
            print(group.state.name, flush=True)
        """,
    )
    with Launcher(script, start_new_session=True) as launcher:
        launcher.said("started")
        os.killpg(launcher.pid, signal.SIGINT)
        assert launcher.end() == 0
        assert launcher.lines == ["started", "mine", "RUNNING"]


def test_no_threads_or_handlers_of_ours_at_import():
    done = run_python(
        "-c",
        "import procession, threading, signal, sys\n"
        "procession.run\n"
        "print(threading.active_count(), repr(signal.getsignal(signal.SIGCHLD)),"
        " repr(signal.getsignal(signal.SIGTERM)))",
    )
    assert done.stdout == f"1 {signal.SIG_DFL!r} {signal.SIG_DFL!r}\n"


@pytest.mark.parametrize("method", METHODS)
def test_interrupt_at_any_moment_of_the_start(tmp_path, method):
    """Wherever it hits, it is raised, and nothing is left: no process, thread or descriptor."""
    main = write(
        tmp_path / "main.py",
        f"""
        import os, procession, procession.api.launch, procession.forkserver, signal, sys
        import threading, time
        import cloudpickle

        def work():
            while True:
                signal.pause()

        def work_quickly():
            pass

        def left():
            threads = [t.name for t in threading.enumerate()[1:]]
            with open(f"/proc/self/task/{{os.getpid()}}/children") as f:
                return len(os.listdir("/proc/self/fd")), threads, f.read()

        def swallowed(told):
            # What a handler raises in a callback of a weak reference or in `__del__`, Python itself
            # drops (as when the garbage collector frees a Thread): then interrupt again.
            ours = (getattr(told.object, "__module__", None) or "").startswith("procession")
            if issubclass(told.exc_type, KeyboardInterrupt) and not ours:
                signal.setitimer(signal.ITIMER_REAL, 0.001)
            else:
                sys.__unraisablehook__(told)

        sys.unraisablehook = swallowed
        signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
        procession.run(work_quickly, nproc=2, start_method={method!r})
        procession.forkserver.close()
        before = left()
        late = between = 0
        for i in range(60):
            group = None
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.0005 * (i + 1))
                group = procession.start(work, nproc=3, start_method={method!r})
                late += 1
                group.wait()
            except KeyboardInterrupt:
                # After `start` and before the first statement of `wait`, the group is the caller's.
                if group is not None and not group.state.final:
                    between += 1
                    group.kill()
            else:
                raise SystemExit("nobody was interrupted")
            procession.forkserver.close()
            deadline = time.monotonic() + 10
            while left() != before:
                if time.monotonic() > deadline:
                    raise SystemExit(f"left after {{i}}: {{left()}}, before: {{before}}")
        print("late", late, "between", between)
        """,
    )
    done = run_python(main, timeout=50)
    assert done.stdout.startswith("late"), (done.stdout, done.stderr)
    assert int(done.stdout.split()[-1]) <= 3, "an interrupt of a wait ends the group"
    assert done.stderr == ""
