"""However the launcher or the agent goes, nothing of the group stays."""

import os
import signal
import textwrap
import time

import pytest

from support import (
    METHODS,
    SAY_WHEN_IN,
    Launcher,
    alive,
    gone,
    marked,
    run_python,
    until,
    write,
)

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


KILLS = [(method, signal.SIGKILL) for method in ("forkserver", "spawn", "fork")]
OTHERS = [("forkserver", signal.SIGTERM), ("spawn", signal.SIGHUP), ("fork", signal.SIGQUIT)]


@pytest.mark.parametrize(("method", "number"), [*KILLS, *OTHERS])
def test_killed_launcher(tmp_path, method, number):
    """The library installs no handlers: the launcher dies at once, and all of the group with it."""
    source = f"""
        group = launch(start_method={method!r})
        print("started", flush=True)
        group.wait()
    """
    with Family(tmp_path, source) as family:
        family.launcher.said("started")
        assert len(family.pids()) == 6
        family.launcher.signal(number)
        assert family.launcher.process.wait(10) == -number
        until(lambda: not marked(), "the end of all processes")


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
            time.sleep(0.02)
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


# -- the agent


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
        for i in range(10):
            group = None
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.003 * (i + 1))
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
