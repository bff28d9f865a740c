"""Ranks in a namespace of pids, or in a cgroup: nothing outlives them, and all else is as ever."""

import errno
import fcntl
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import containwork
import pytest
from test_forkserver import traced

import procession
from procession import GroupFailed, Logs, Outcome, Phase, Restart, SpecError, Std
from seams.cli import doctor
from seams.prepare import contained_here
from seams.system import killgroup, own_place, why_not
from seams.values import make_spec
from support import (
    OBEDIENT,
    QUICK,
    failure_of,
    gone,
    marked,
    run_procession,
    run_python,
    shell,
    until,
    write,
)

NEEDED = ["cgroup", "pidns"]
SOON = 1.0  # seconds in which the kernel, or the guard, has ended everything on an idle machine
WORK = Path(containwork.__file__)
# Several times that: other tests keep all cores busy meanwhile.
PATIENTLY = 15 * SOON


def need(contain):
    why = why_not(doctor.CONTAIN[contain])
    if why:
        pytest.skip(f"--contain {contain} cannot be had here: {why}")


@pytest.fixture(params=NEEDED)
def contain(request):
    need(request.param)
    return request.param


@pytest.fixture
def pidns():
    need("pidns")
    return "pidns"


@pytest.fixture(autouse=True)
def no_idle_one():
    procession.forkserver.close()
    yield
    procession.forkserver.close()


def parent_of(pid):
    """Give the parent of a process, 0 if it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0
    return int(text.rpartition(")")[2].split()[1])


def children_of(pid):
    return [p for p in map(int, filter(str.isdecimal, os.listdir("/proc"))) if parent_of(p) == pid]


def above(group):
    """Give the forkserver of a group, and its guard."""
    server = parent_of(group.pids()[0])
    guard = parent_of(server)
    assert parent_of(guard) == os.getpid()
    return server, guard


class Daemons:
    """A launcher in a process of its own, whose ranks have left daemons."""

    def __init__(self, contain, tmp_path, python=sys.executable, **options):
        self.mark = f"CONTAINED_BY={tmp_path}"
        env = {**os.environ, "CONTAINED_BY": str(tmp_path)}
        words = [python, str(WORK), contain, str(tmp_path), "2"]
        self.launcher = subprocess.Popen(words, env=env, **options)
        until(lambda: all((tmp_path / r).exists() for r in "01"), "the ranks")
        (self.guard,) = children_of(self.launcher.pid)
        (self.server,) = children_of(self.guard)

    def left(self):
        return marked(self.mark)

    def kill(self, *pids):
        """Kill the launcher, and before it these, while it is stopped and cannot act on that."""
        self.launcher.send_signal(signal.SIGSTOP)
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        self.launcher.kill()
        self.launcher.wait()


# -- nothing is left


def test_launcher_and_forkserver_are_killed_in_the_same_moment(contain, tmp_path):
    run = Daemons(contain, tmp_path)
    assert len(run.left()) >= 2 + 2 * 3
    run.kill(run.server)
    until(lambda: not run.left(), "the end of all", PATIENTLY)


def test_even_the_guard_of_a_namespace_may_be_killed_with_them(pidns, tmp_path):
    run = Daemons(pidns, tmp_path)
    os.kill(run.guard, signal.SIGSTOP)  # it cannot reap, so that the next number is still good
    run.kill(run.server, run.guard)
    until(lambda: not run.left(), "the end of all", PATIENTLY)


def test_the_guard_alone_is_killed(contain, tmp_path):
    with procession.start(containwork.rank, args=(str(tmp_path),), nproc=2, contain=contain,
                          stop=QUICK) as group:  # fmt: skip
        until(lambda: all((tmp_path / r).exists() for r in "01"), "the ranks")
        server, guard = above(group)
        os.kill(guard, signal.SIGKILL)
        with pytest.raises(GroupFailed):
            group.wait(30).values  # noqa: B018
    gone([server])
    mine = f"PROCESSION_LAUNCHER={os.getpid()}-"
    until(lambda: not [p for p in marked(mine) if parent_of(p) != os.getpid()], "the end of all")


def test_launcher_alone_is_killed_and_its_forkserver_is_stopped(contain, tmp_path):
    run = Daemons(contain, tmp_path)
    os.kill(run.server, signal.SIGSTOP)
    run.kill()
    until(lambda: not run.left(), "the end of all", PATIENTLY)


def test_a_forkserver_that_is_stopped_is_woken_to_end_its_group(contain):
    with procession.start(shell("sleep 1000"), nproc=2, contain=contain, stop=OBEDIENT) as group:
        server, _ = above(group)
        until(lambda: group.state is Phase.RUNNING, "the ranks")
        os.kill(server, signal.SIGSTOP)
        group.stop()
        assert group.wait(30).state is Phase.STOPPED


def test_a_forkserver_that_does_not_answer_is_killed_with_all_below(contain, tmp_path):
    with procession.start(containwork.rank, args=(str(tmp_path),), nproc=2, contain=contain,
                          stop=QUICK) as group:  # fmt: skip
        until(lambda: all((tmp_path / r).exists() for r in "01"), "the ranks")
        server, guard = above(group)
        with traced(server):
            group.stop()
            assert group.wait(60).state is Phase.STOPPED
    gone([server, guard])
    assert not [p for p in marked(f"PROCESSION_LAUNCHER={os.getpid()}-") if is_daemon(p)]


def test_leftovers_of_a_group_end_with_it_and_the_next_group_goes_on_there(contain, tmp_path):
    def leave():
        if not os.fork():
            os.setsid()
            containwork.daemon()
        return os.getppid()

    for _ in range(2):
        assert len(procession.run(leave, nproc=2, contain=contain, stop=QUICK)) == 2
        assert not [p for p in marked(f"PROCESSION_LAUNCHER={os.getpid()}-") if is_daemon(p)]


def is_daemon(pid):
    """Whether a process ignores SIGHUP, as the daemons do and a forkserver does not."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    ignored = int(re.search(r"SigIgn:\s*(\w+)", text)[1], 16)
    return bool(ignored >> (signal.SIGHUP - 1) & 1)


def cgroup_of(guard):
    """Give the cgroup that this guard made; other tests make some beside it."""
    (found,) = Path(own_place()).glob(f"procession_{guard}_*")
    return found


def test_a_cgroup_is_removed(tmp_path):
    need("cgroup")
    with procession.start(shell("sleep 1000"), contain="cgroup", stop=OBEDIENT) as group:
        _, guard = above(group)
    made = cgroup_of(guard)
    procession.forkserver.close()
    assert not made.exists()
    run = Daemons("cgroup", tmp_path)
    made = cgroup_of(run.guard)
    run.kill(run.server)
    until(lambda: not made.exists(), "the end of the cgroup", PATIENTLY)


def test_a_cgroup_with_more_made_in_it_is_removed():
    need("cgroup")

    def work():
        (own,) = [w[3:] for w in Path("/proc/self/cgroup").read_text().split() if w[:3] == "0::"]
        made = next(p for p in Path("/sys/fs/cgroup").rglob(own.strip("/")) if p.is_dir())
        (made / "mine" / "deeper").mkdir(parents=True)
        (made / "mine" / "cgroup.procs").write_text("0")
        return str(made)

    (made,) = procession.run(work, nproc=1, contain="cgroup")
    procession.forkserver.close()
    assert not os.path.exists(made)


def test_a_cgroup_whose_guard_was_killed_as_well_is_removed_by_clean(tmp_path):
    need("cgroup")

    def groups():
        mark = f"@{run.launcher.pid}-"
        return [name for name in os.listdir(own_place()) if mark in name]

    run = Daemons("cgroup", tmp_path)
    os.kill(run.guard, signal.SIGSTOP)
    run.kill(run.server, run.guard)
    assert run_procession("clean", timeout=40).returncode == 0
    assert groups() == []
    until(lambda: not run.left(), "the end of all", PATIENTLY)


# -- what people see is what they see otherwise


def variables_of(pid):
    return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")


def test_pids_are_those_that_people_see(contain):
    group = procession.start(shell("sleep 1000"), nproc=3, contain=contain, stop=OBEDIENT)
    until(lambda: group.state is Phase.RUNNING, "the ranks")
    for rank, pid in group.pids().items():
        # A process that is in the middle of an exec shows no environment.
        until(lambda r=rank, p=pid: b"RANK=%d" % r in variables_of(p), f"rank {rank}")
    second = group.pids()[1]
    os.kill(second, signal.SIGUSR1)
    with pytest.raises(GroupFailed) as caught:
        group.wait(30).values  # noqa: B018
    cause = caught.value.cause
    assert (cause.rank, cause.exit.signal, cause.pid) == (1, signal.SIGUSR1, second)


def test_ranks_see_themselves(pidns):
    def look():
        names = [int(name) for name in os.listdir("/proc") if name.isdecimal()]
        return os.getpid(), os.getppid(), int(os.readlink("/proc/self")), names, os.getuid()

    values = procession.run(look, nproc=2, contain=pidns)
    own = {pid for pid, *_ in values}
    for pid, parent, shown, names, user in values:
        assert (parent, shown, user) == (1, pid, os.getuid())
        assert {1, pid} <= set(names) <= {1, *own}


def test_a_rank_that_is_gone_at_once_has_its_pid(contain):
    with procession.start(["true"], nproc=8, contain=contain) as group:
        result = group.wait(30)
    pids = [end.pid for end in result.ranks]
    assert result.state is Phase.SUCCEEDED
    assert len({*pids}) == 8
    assert not set(pids) & set(range(1, 10))  # their numbers inside


def test_values_exceptions_and_exit_codes(contain):
    def work(base):
        if base < 0:
            raise KeyError(base)
        return base + int(os.environ["RANK"])

    assert procession.run(work, args=(40,), nproc=3, contain=contain) == [40, 41, 42]
    spawned = {"start_method": "spawn", "contain": contain}
    assert procession.run(work, args=(1,), nproc=2, **spawned) == [1, 2]
    failed = failure_of(work, args=(-1,), nproc=2, contain=contain)
    assert failed.cause.outcome is Outcome.RAISED
    assert isinstance(failed.__cause__, KeyError)
    failed = failure_of(shell("exit 7"), nproc=1, contain=contain)
    assert failed.cause.exit.code == 7


def test_stacks(contain):
    def sleeper():
        time.sleep(1000)

    with procession.start(sleeper, nproc=2, contain=contain, stop=OBEDIENT) as group:
        until(lambda: all("sleeper" in str(s["frames"]) for s in group.stacks()), "the stacks")


def test_tee_and_files(contain, tmp_path, capfd):
    procession.run(shell("echo hello $RANK"), nproc=2, contain=contain,
                   logs=Logs(tmp_path, tee=Std.ALL))  # fmt: skip
    assert {"[0] hello 0", "[1] hello 1"} <= {*capfd.readouterr().out.splitlines()}
    assert sorted(p.read_text() for p in tmp_path.rglob("stdout.log")) == ["hello 0\n", "hello 1\n"]


def test_restarts(contain, tmp_path):
    def work():
        seen = tmp_path / os.environ["RANK"]
        seen.write_text(seen.read_text() + "x" if seen.exists() else "x")
        if seen.read_text() == "x":
            os.kill(os.getpid(), signal.SIGKILL)
        return seen.read_text()

    restart = Restart(max=2, backoff=0.01)
    values = procession.run(work, nproc=1, contain=contain, restart=restart)
    assert values == ["xx"]


@pytest.mark.parametrize("contain", ["forkserver", *NEEDED])
def test_what_a_rank_has_left_ends_when_it_starts_again(contain, tmp_path):
    """Its sleep holds a lock, for which the rank waits in its next life."""
    if contain in NEEDED:
        need(contain)

    def work():
        if os.environ["RANK"] == "1":
            until((tmp_path / "done").exists, "rank 0 in its second life")
            return
        with open(tmp_path / "lock", "w") as lock:
            if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
                fcntl.flock(lock, fcntl.LOCK_EX)
                subprocess.Popen(["sleep", "1000"], pass_fds=[lock.fileno()])
                os._exit(3)

            def free():
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    return False
                return True

            until(free, "the lock")
        (tmp_path / "done").touch()

    restart = Restart(max=1, backoff=0.01, scope="rank")
    procession.run(work, nproc=2, contain=contain, restart=restart)


def test_the_forkserver_alone_is_killed_and_the_group_starts_again(contain, tmp_path):
    def work():
        if os.path.exists(tmp_path / "again"):
            return "again"
        (tmp_path / "again").touch()
        return time.sleep(1000)

    restart = Restart(max=1, backoff=0.01)
    with procession.start(work, nproc=1, contain=contain, restart=restart) as group:
        until((tmp_path / "again").exists, "the rank")
        server, guard = above(group)
        os.kill(server, signal.SIGKILL)
        assert group.wait(30).values == ["again"]
    gone([server, guard])


def test_imports_are_preloaded_and_the_forkserver_is_kept_by_its_kind(contain):
    def parent():
        import sys

        return "decimal" in sys.modules, os.getppid()

    def run(**options):
        loaded, server = procession.run(parent, nproc=1, preload=["decimal"], **options)[0]
        assert loaded
        return server

    if contain == "cgroup":
        assert len({run(contain=contain), run(contain=contain), run()}) == 2
    else:
        assert (run(contain=contain), run(contain=contain)) == (1, 1)
        assert run() > 1


def test_nothing_is_kept_for_later_commands(contain, tmp_path):
    script = write(tmp_path / "main.py", "import os; print('parent', os.getppid())")
    env = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    done = run_procession("run", "--warm", "--contain", contain, "-n", "1", script, env=env)
    assert (done.returncode, done.stderr) == (0, "")
    assert not [p for p in tmp_path.rglob("*") if p.is_socket()]


def test_a_group_in_a_rank(pidns):
    def outer():
        inner = procession.run(os.getpid, nproc=2, contain="pidns")
        procession.forkserver.close()
        return inner

    assert procession.run(outer, nproc=1, contain=pidns) == [[2, 3]]


# -- where and how it is asked for


def test_everywhere_one_may_ask(pidns, tmp_path):
    words = ("-n", "1", "sh", "-c", "echo $PPID")
    config = tmp_path / "pyproject.toml"
    config.write_text('[tool.procession]\ncontain = "pidns"\n')
    for done in (
        run_procession("run", "--contain", "pidns", *words),
        run_procession("run", *words, env={**os.environ, "PROCESSION_CONTAIN": "pidns"}),
        run_procession("run", *words, cwd=tmp_path),
    ):
        assert (done.returncode, done.stdout) == (0, "1\n"), done


def test_a_machine_chooses_a_cgroup_where_it_can(tmp_path):
    need("cgroup")
    place = "grep -q 'procession_[^/]*@' /proc/self/cgroup"  # not one for a limit of memory
    words = ("-n", "1", "sh", "-c", f"{place} && echo cgroup || echo forkserver")
    env = {**os.environ, "PROCESSION_CONTAIN": "auto"}
    assert run_procession("run", *words, env=env).stdout == "cgroup\n"
    for more in (("--memory-limit", "1G"), ("--warm",), ("--contain", "forkserver")):
        assert run_procession("run", *more, *words, env=env).stdout == "forkserver\n"
    run = Daemons("auto", tmp_path)
    run.kill(run.server)
    until(lambda: not run.left(), "the end of all", PATIENTLY)


def test_a_machine_that_has_none_lets_ranks_live_below_the_forkserver(monkeypatch):
    def look():
        return "@" in Path("/proc/self/cgroup").read_text()

    assert procession.run(look, nproc=1, contain="auto", start_method="fork") == [False]
    with monkeypatch.context() as patched:
        patched.setattr(killgroup, "obstacle", lambda *_: "no")
        assert procession.run(look, nproc=1, contain="auto") == [False]

    def refused(*_):
        raise PermissionError(errno.EPERM, "no pidfds here")

    monkeypatch.setattr(os, "pidfd_open", refused)
    spec = make_spec(look, nproc=1, contain="auto")
    assert contained_here(spec).contain == "forkserver"


def test_what_keeps_a_cgroup_from_being_made(tmp_path):
    assert "cgroup.procs" in killgroup.obstacle(str(tmp_path))
    (tmp_path / "cgroup.procs").touch()  # no cgroup: what is made there has no cgroup.kill
    assert "cgroup.kill" in killgroup.obstacle(str(tmp_path))
    assert [p.name for p in tmp_path.iterdir()] == ["cgroup.procs"]


def test_the_environment_asks_in_python(pidns, monkeypatch):
    monkeypatch.setenv("PROCESSION_CONTAIN", pidns)
    assert procession.run(os.getppid, nproc=1) == [1]
    assert procession.run(os.getppid, nproc=1, contain="forkserver") != [1]
    monkeypatch.setenv("PROCESSION_CONTAIN", "box")
    with pytest.raises(SpecError, match="PROCESSION_CONTAIN must be one of"):
        procession.run(["true"])


def test_what_cannot_be_is_refused_before_anything_starts(tmp_path):
    started = tmp_path / "started"

    def work():
        started.touch()

    for options, words in (
        ({"contain": "box"}, "contain must be one of forkserver, pidns, cgroup, auto, not 'box'"),
        ({"contain": "pidns", "start_method": "fork"}, "does not go with start_method='fork'"),
        (
            {"contain": "cgroup", "placement": procession.Placement(memory_limit="1G")},
            "does not go with memory_limit",
        ),
    ):
        with pytest.raises(SpecError) as caught:
            procession.run(work, **options)
        assert words in str(caught.value)
    assert not started.exists()
    done = run_procession("run", "--contain", "box", "-n", "2", "true")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.endswith("[P003]\n")


WITHOUT = """
import ctypes, os, sys, procession
# Neither namespaces nor mounts: what a container's filter refuses.
libc = ctypes.CDLL(None, use_errno=True)
if libc.prctl(24, 21, 0, 0, 0):  # PR_CAPBSET_DROP, CAP_SYS_ADMIN
    sys.exit("not root")
os.execv(sys.argv[1], sys.argv[1:])
"""


def test_where_the_machine_refuses_it_one_line_says_so(tmp_path):
    script = write(tmp_path / "main.py", WITHOUT)
    command = Path(sys.executable).with_name("procession")
    words = ("run", "--contain", "pidns", "-n", "2", "touch", tmp_path / "started")
    done = run_python(script, command, *words)
    if done.stderr == "not root\n":
        pytest.skip("only root can give up a capability for good")
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(
        r"procession run: error: contain='pidns' cannot be had here: "
        r"unshare\(CLONE_NEWPID\): Operation not permitted \[P025\]\n",
        done.stderr,
    ), done.stderr
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize(
    ("mounts", "own", "why"),
    [
        ("", "", "there is no cgroup of version 2"),
        ("cgroup cgroup rw,pids", "1:pids:/", "version 1 cannot kill at once"),
        ("cgroup2 cgroup2 rw", "0::/mine", "cgroup.kill"),
    ],
)
def test_a_machine_without_such_cgroups(mounts, own, why, tmp_path):
    """Fake roots: what is there, and what is said of it."""
    proc = tmp_path / "proc" / "self"
    proc.mkdir(parents=True)
    line = f"30 1 0:1 / /sys/fs/cgroup rw - {mounts}\n" if mounts else ""
    (proc / "mountinfo").write_text(line)
    (proc / "cgroup").write_text(f"{own}\n")
    place = tmp_path / "sys" / "fs" / "cgroup" / "mine"
    place.mkdir(parents=True)
    with pytest.raises(OSError, match=re.escape(why)):
        killgroup.make(own_place(str(tmp_path)))
    assert os.listdir(place) == []


def test_doctor_says_what_works():
    text = run_procession("doctor").stdout
    for kind, trial in doctor.CONTAIN.items():
        line = re.search(rf"--contain {kind} +(\S.*)", text)[1]
        assert line == (why_not(trial) or "works")
