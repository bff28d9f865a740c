"""One command leaves its agent to the next, and nothing of itself."""

import contextlib
import json
import os
import subprocess
import sys

import pytest
from keeping import kept_by_test

from conftest import alive, command_line, until
from support import PROCESSION, run_procession, run_python, write

SAY = """
    import json, os, sys
    import decimal
    print(json.dumps([os.environ["RANK"], os.getppid(), sys.argv[1:], os.environ.get("TOKEN"),
                      os.environ["PROCESSION_LAUNCHER"], os.getcwd(), os.umask(0o77)]), flush=True)
"""


@pytest.fixture
def kept():
    yield from kept_by_test()


COLD = "this run starts cold"


def ranks_of(done):
    """Give what the ranks said, by rank."""
    assert done.returncode == 0, (done.stdout, done.stderr)
    said = [json.loads(line.partition("] ")[2]) for line in done.stdout.splitlines()]
    return {int(rank): rest for rank, *rest in said}


def warm(script, *words, env=(), options=(), **more):
    more = {"env": {**os.environ, **dict(env)}, "timeout": 60, **more}
    return run_procession("run", "--warm", *options, "-n", "2", script, *words, **more)


def test_the_next_command_takes_it_and_finds_nothing_of_the_last(tmp_path, kept):
    script = write(tmp_path / "a.py", SAY)
    options = ("--preload", "decimal,fractions")
    first = warm(script, "one", env={"TOKEN": "secret-1"}, options=options, cwd=tmp_path)
    assert f"{COLD}: nothing is kept yet" in first.stderr
    before = ranks_of(first)
    entry = kept.one()
    assert (entry["uses"], [*entry["modules"]]) == (1, ["decimal", "fractions"])
    assert entry["pid"] == before[0][0]
    assert_holds_nothing(entry["pid"])

    write(tmp_path / "a.py", SAY + "    print(end='')\n")
    second = warm(script, "two", env={"TOKEN": "secret-2"}, options=options, cwd=tmp_path)
    assert COLD not in second.stderr, second.stderr
    after = ranks_of(second)
    for rank in (0, 1):
        ppid, words, token, mark, cwd, umask = after[rank]
        assert (ppid, words, token) == (entry["pid"], ["two"], "secret-2")
        assert mark != before[rank][3]
        assert [cwd, umask] == before[rank][4:]
    assert kept.one()["uses"] == 2
    assert_holds_nothing(entry["pid"])

    # Another script with these imports, in Python.
    listed = run_procession("warm")
    assert "decimal, fractions (2 modules)" in listed.stdout, listed
    rows = json.loads(run_procession("ps", "--json").stdout)
    shown = [(r["state"], r["alive"]) for r in rows if r["launcher"] == entry["pid"]]
    assert shown == [("KEPT", 0)]
    stopped = run_procession("warm", "stop")
    assert stopped.stdout == "procession: 1 ended, except what a run uses\n", stopped
    until(lambda: not alive(entry["pid"]), "the end of what was kept")
    assert run_procession("warm").stderr == "procession: nothing is kept\n"


def descriptors_of(pid):
    """Say where the descriptors of a process lead."""
    leads = []
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            leads.append(os.readlink(f"/proc/{pid}/fd/{fd}"))
    return leads


def assert_holds_nothing(pid):
    """Look at a kept agent from outside, for anything of the run that it has served."""
    with open(f"/proc/{pid}/environ", "rb") as f:
        shown = f.read()
    assert b"\0\0" not in shown  # for who reads it, that is the end
    variables = dict(v.split(b"=", 1) for v in shown.split(b"\0") if v)
    assert variables.pop(b"PROCESSION_LAUNCHER").startswith(b"%d-" % pid)
    assert not [n for n in variables if n.startswith((b"TOKEN", b"PROCESSION_TEST", b"MASTER_"))]
    with open(f"/proc/{pid}/cmdline", "rb") as f:
        assert b"a.py" not in f.read()
    # It closes the socket to who has just asked.
    until(lambda: str(descriptors_of(pid)).count("socket:") == 1, "the end of the other socket")
    leads = descriptors_of(pid)
    known = ("/dev/null", "socket:", "anon_inode:", "pipe:")
    assert [os.path.basename(each) for each in leads if not each.startswith(known)] == [
        "procession"  # the directory of its socket
    ]
    counts = {kind: sum(lead.startswith(kind) for lead in leads) for kind in known[1:]}
    assert counts["socket:"] == 1 and counts["pipe:"] == 2, leads
    assert sorted(lead for lead in leads if lead.startswith("anon_inode:")) == [
        "anon_inode:[eventfd]",
        "anon_inode:[eventpoll]",
    ]
    assert os.readlink(f"/proc/{pid}/cwd") == "/"
    with open(f"/proc/{pid}/task/{pid}/children") as f:
        assert f.read() == ""
    assert len(os.listdir(f"/proc/{pid}/task")) == 1


def test_programs_and_functions_of_other_processes_take_it(tmp_path, kept):
    program = write(
        tmp_path / "p.py",
        """
        import os, sys
        import procession
        def parent():
            return os.getppid()
        print(procession.run(parent, nproc=2, warm=True, preload=["decimal"]))
        print(procession.run(parent, nproc=1, warm=20.0, preload=["decimal", "fractions"]))
        """,
    )
    first = run_python(program, cwd=tmp_path, timeout=60)
    parents = json.loads("[" + ",".join(first.stdout.split("\n")[:2]) + "]")
    assert first.stderr.count(COLD) == 1, first.stderr
    assert parents[0] == [parents[0][0]] * 2 and parents[1] == parents[0][:1]
    second = run_python(program, cwd=tmp_path, timeout=60)
    # It has made more imports than the first run wants now: that one starts cold.
    assert second.stderr.count(f"{COLD}: what is kept has made other imports") == 1
    assert json.loads(second.stdout.splitlines()[1]) == [parents[0][0]]
    modules = {tuple(each["modules"]) for each in kept.list()}
    assert modules == {("decimal",), ("decimal", "fractions")}


def test_variables_and_files_ask_for_it(tmp_path, kept):
    script = write(tmp_path / "a.py", "import os\nprint(os.getppid())\n")
    write(tmp_path / "pyproject.toml", "[tool.procession]\nwarm = true\npreload = 'decimal'\n")
    words = ("run", "-n", "1", script)
    first = run_procession(*words, cwd=tmp_path)
    assert f"{COLD}: nothing is kept yet" in first.stderr
    assert kept.one()["seconds"] == 600
    env = {**os.environ, "PROCESSION_WARM": "30", "PROCESSION_PRELOAD": "decimal"}
    second = run_procession(*words, cwd=tmp_path, env=env)
    assert (second.returncode, second.stdout) == (0, first.stdout), second.stderr
    assert kept.one()["seconds"] == 30
    off = run_procession(*words, cwd=tmp_path, env={**env, "PROCESSION_WARM": "0"})
    assert off.stdout != first.stdout and COLD not in off.stderr
    assert kept.one()["uses"] == 2
    wrong = run_procession("run", "--warm=soon", script)
    assert (wrong.returncode, "--warm must be seconds" in wrong.stderr) == (2, True)
    both = run_procession("warm", "everything")
    assert (both.returncode, "it takes one of list, stop" in both.stderr) == (2, True)


def test_time_and_number_are_limited(tmp_path, kept):
    def one(module, seconds="on", **variables):
        script = write(tmp_path / f"{module}.py", "import os\nprint(os.getppid())\n")
        env = {**os.environ, **variables, "PROCESSION_WARM": seconds}
        done = run_procession("run", "-n", "1", "--preload", module, script, env=env, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return int(done.stdout), done.stderr

    short, _ = one("decimal", "0.05")
    kept.seen.add(short)
    until(lambda: not alive(short), "the end of its time")
    oldest, _ = one("fractions")
    newer, _ = one("statistics", PROCESSION_WARM_MOST="2")
    again, said = one("fractions", PROCESSION_WARM_MOST="2")
    assert again == oldest, said
    newest, _ = one("decimal", PROCESSION_WARM_MOST="2")
    assert [each["pid"] for each in kept.list()] == [oldest, newest]
    until(lambda: not alive(newer), "the end of the one that was not used for longest")
    _, said = one("calendar", PROCESSION_WARM_MOST="0")
    assert "nothing is kept: none may be kept (PROCESSION_WARM_MOST)" in said, said
    assert [each["pid"] for each in kept.list()] == [oldest, newest]


def test_the_end_of_the_launcher_ends_what_it_has_taken(tmp_path, kept):
    script = write(
        tmp_path / "stay.py",
        """
        import os, subprocess, sys, time
        if len(sys.argv) > 1:
            child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"],
                                     start_new_session=True)
            print(os.getpid(), child.pid, flush=True)
            time.sleep(600)
        """,
    )
    options = ("run", "--warm", "-n", "1", "--preload", "decimal", script)
    assert run_procession(*options, timeout=60).returncode == 0
    taken = kept.one()["pid"]
    with subprocess.Popen([*PROCESSION, *map(str, options), "stay"], stdout=subprocess.PIPE) as p:
        try:
            pids = [int(word) for word in p.stdout.readline().split()]
            with open(f"/proc/{pids[0]}/stat") as f:
                assert int(f.read().rpartition(")")[2].split()[1]) == taken
            assert kept.list() == []
        finally:
            p.kill()
    for pid in (taken, *pids):
        until(lambda pid=pid: not alive(pid), f"the end of {command_line(pid)}", 20)


def test_an_agent_that_was_taken_and_is_killed_is_replaced(tmp_path, kept):
    script = write(
        tmp_path / "a.py",
        """
        import os, signal, sys, time
        attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
        print(attempt, os.getppid(), flush=True)
        if len(sys.argv) > 1 and not attempt:
            time.sleep(0.5)  # until it is known that this rank has begun
            os.kill(os.getppid(), signal.SIGKILL)
            signal.pause()
        """,
    )
    options = ("run", "--warm", "-n", "1", "--max-restarts", "1", "--preload", "decimal", script)
    assert run_procession(*options, timeout=60).returncode == 0
    taken = kept.one()["pid"]
    done = run_procession(*options, "kill", timeout=60)
    assert done.returncode == 0, done.stderr
    (_, before), (_, after) = [map(int, line.split()) for line in done.stdout.splitlines()]
    assert before == taken
    assert kept.one()["pid"] == after
    assert sys.executable in command_line(after)
