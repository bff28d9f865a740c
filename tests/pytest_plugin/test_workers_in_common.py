"""Workers of pytest-xdist whose ranks are forks of one stem, and have shared fixtures in common."""

import os
import subprocess
import sys
import textwrap
import time

import pytest
from pytestruns import run

from support import until

CONFTEST = """
    import contextlib
    import os
    import time

    import procession.pytest

    def note(what):
        with open(os.environ["NOTES"], "a") as notes:
            notes.write(what + "\\n")

    @procession.pytest.shared
    def table():
        note(f"table {os.getpid()}")
        return [1, 2]

    @procession.pytest.shared
    def twice(table):
        note(f"twice {os.getpid()}")
        return table * 2

    @procession.pytest.shared
    def never():
        note("never")

    @procession.pytest.shared
    def deadly():
        note("deadly")
        if not os.fork():  # it has copies of all sockets of this process, and lives on
            for fd in os.listdir("/proc/self/fd"):
                with contextlib.suppress(OSError):
                    if not os.readlink(f"/proc/self/fd/{fd}").startswith("socket:"):
                        os.close(int(fd))
            while not os.path.exists(os.environ["NOTES"] + ".over"):
                time.sleep(0.01)
            os._exit(0)
        os.kill(os.getpid(), 9)
"""
TESTS = """
    import multiprocessing
    import os
    import signal
    import time

    import pytest
    from conftest import note

    # The first four tests use this. Workers begin with two each, so both workers have some.
    @pytest.fixture
    def both(request):
        if not hasattr(request.config, "workerinput"):
            return
        worker_id = request.config.workerinput["workerid"]
        note(f"begun {worker_id}")
        for _ in range(3000):
            with open(os.environ["NOTES"]) as notes:
                if {"begun gw0", "begun gw1"} <= set(notes.read().split("\\n")):
                    return
            time.sleep(0.01)
        raise RuntimeError("the other worker has not begun")

    def worker():
        return os.environ["PYTEST_XDIST_WORKER"]
"""
SHARING = """
    @pytest.mark.ranks(2)
    @pytest.mark.parametrize("n", range(4))
    def test_shared(n, both, table, worker_id, gather, tmp_path, request):
        note(f"used {id(table)}")
        assert table == [1, 2]
        assert worker_id == worker() == request.config.workerinput["workerid"]
        assert worker_id in str(tmp_path)
        assert worker_id in str(request.config.option.basetemp)
        assert gather(worker_id) == [worker_id] * 2

    @pytest.mark.ranks(2)
    @pytest.mark.parametrize("n", range(4))
    def test_later(n, twice):
        assert twice == [1, 2, 1, 2]

    @pytest.mark.skip("not here")
    @pytest.mark.ranks(2)
    def test_skipped(never):
        pass

    @pytest.mark.ranks(2, method="keep")
    @pytest.mark.parametrize("n", range(2))
    def test_kept(n, rank, twice, table):
        assert twice == table * 2
"""
CRASHES = """
    @pytest.mark.ranks(2)
    @pytest.mark.parametrize("n", range(4))
    def test_before(n, both, table):
        pass

    @pytest.mark.ranks(2)
    @pytest.mark.parametrize("n", range(2))
    def test_deadly(n, deadly):
        pass

    @pytest.mark.ranks(2)
    @pytest.mark.parametrize("n", range(6))
    def test_after(n, twice):
        assert twice == [1, 2, 1, 2]
"""
LOST = """
    @pytest.mark.ranks(2)
    @pytest.mark.parametrize("n", range(4))
    def test_first(n, both, table):
        pass

    def test_that_kills_the_worker_that_has_forked_the_stem(tmp_path_factory):
        (lock,) = tmp_path_factory.getbasetemp().parent.glob("ranks-stem-*/stem")
        with open("/proc/locks") as locks:
            (pid,) = (
                int(words[4]) for words in map(str.split, locks)
                if words[1] == "FLOCK" and words[5].endswith(f":{lock.stat().st_ino}")
            )
        note("killed")
        os.kill(pid, signal.SIGKILL)

    @pytest.mark.ranks(2)
    @pytest.mark.parametrize("n", range(8))
    def test_goes_on(n, rank, table, gather):
        assert gather(rank) == [0, 1]
"""
PROCESSES = """
    def told(queue):
        queue.put((worker(), os.environ.get("COLOUR")))

    @pytest.mark.ranks(2)
    @pytest.mark.parametrize("n", range(4))
    def test_together(n, both, table):
        pass

    @pytest.mark.parametrize("n", range(4))
    def test_process(n, worker_id, monkeypatch):
        monkeypatch.setenv("COLOUR", str(n))
        spawn = multiprocessing.get_context("spawn")
        queue = spawn.SimpleQueue()
        process = spawn.Process(target=told, args=(queue,))
        process.start()
        assert queue.get() == (worker_id, str(n))
        process.join()
        assert process.exitcode == 0
"""
ENDLESS = """
    @pytest.mark.ranks(2)
    @pytest.mark.parametrize("n", range(4))
    def test_endless(n, both, table):
        note("waits")
        time.sleep(600)
"""
TWO = ("-n", "2", "--ranks-at-once", "4")

pytestmark = pytest.mark.timeout(240)


@pytest.fixture
def notes(tmp_path):
    path = tmp_path / "notes"
    path.touch()

    def read(word):
        return [line for line in path.read_text().splitlines() if line.startswith(word)]

    return read


def common(tmp_path, text, *words, **more):
    return run(tmp_path, *TWO, *words, env={"NOTES": str(tmp_path / "notes")},
               conftest=CONFTEST, test_a=TESTS + text, limit=200, **more)  # fmt: skip


def named(where):
    """List the processes whose variables name a directory."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as f:
                if str(where / "notes").encode() in f.read():
                    found.append(int(pid))
        except OSError:
            pass
    return found


def test_a_shared_fixture_is_made_once_for_all_workers(tmp_path, notes):
    found = common(tmp_path, SHARING)
    outcomes = found.outcomes
    assert len(outcomes) == 11
    assert outcomes.pop("test_skipped") == "skipped"
    assert set(outcomes.values()) == {"passed"}, found.text
    assert len(notes("table")) == len(notes("twice")) == 1
    assert len(set(notes("used"))) == 1
    assert notes("never") == []
    assert named(tmp_path) == []


@pytest.mark.parametrize("workers", [2, 0])
def test_a_fixture_that_crashes_harms_only_the_tests_that_need_it(tmp_path, notes, workers):
    """It has forked a process that lives on, so that no connection of the crashed one ends."""
    try:
        found = common(tmp_path, CRASHES, f"-n{workers}")
    finally:
        tmp_path.joinpath("notes.over").touch()
        until(lambda: named(tmp_path) == [], "the end of what the fixture has forked")
    passed = [f"test_before[{n}]" for n in range(4)] + [f"test_after[{n}]" for n in range(6)]
    failed = ["test_deadly[0]", "test_deadly[1]"]
    expected = dict.fromkeys(passed, "passed") | dict.fromkeys(failed, "failure")
    assert found.outcomes == expected, found.text
    for each in failed:
        said = "the shared fixture deadly has ended the process that ranks are forked from"
        assert said in found.message(each)


def test_a_worker_that_is_killed_takes_no_other_with_it(tmp_path, notes):
    found = common(tmp_path, LOST)
    failed = [message for outcome, message in found.cases.values() if outcome != "passed"]
    assert len(found.outcomes) == 13, found.text
    assert len(failed) <= 1, found.text  # the test that ran in this worker
    assert all("crashed while running" in message for message in failed), found.text
    assert notes("killed") == ["killed"]
    assert len(notes("table")) == 1, "the stem has outlived the worker that had forked it"
    assert named(tmp_path) == []


def test_processes_of_the_template_belong_to_their_worker(tmp_path):
    found = common(tmp_path, PROCESSES, "--ranks-template")
    assert len(found.outcomes) == 8
    assert set(found.outcomes.values()) == {"passed"}, found.text


@pytest.mark.parametrize("whose", ["session", "worker"])
def test_nothing_is_left_of_a_session_that_is_killed(tmp_path, notes, whose):
    """The second time, all workers and the session are killed in one moment."""
    for name, text in (("conftest", CONFTEST), ("test_a", TESTS + ENDLESS)):
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(text))
    (tmp_path / "pytest.ini").touch()
    words = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:randomly", *TWO]
    with subprocess.Popen(
        [*words, f"--basetemp={tmp_path}/base"],
        cwd=tmp_path,
        env={**os.environ, "NOTES": str(tmp_path / "notes")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as session:
        deadline = time.monotonic() + 120
        while len(notes("waits")) < 4:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        if whose == "worker":
            with open(f"/proc/{session.pid}/task/{session.pid}/children") as f:
                workers = [int(pid) for pid in f.read().split()]
            for pid in workers:
                os.kill(pid, 9)
        session.kill()
    deadline = time.monotonic() + 60
    while named(tmp_path):
        assert time.monotonic() < deadline, named(tmp_path)
        time.sleep(0.05)
