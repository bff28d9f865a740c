"""Tests in ranks that are interrupted by Ctrl-C, or whose launcher is stopped."""

import os
import signal

import pytest
from pytestruns import begun

from support import alive, until

ENDLESS = """
    import os
    import time

    import pytest

    @pytest.mark.ranks(2)
    def test_endless(rank):
        open(os.environ["NOTES"] + str(rank), "w").close()
        while True: time.sleep(1)
"""
STOPPED = """
    import os
    import signal

    import pytest

    @pytest.mark.ranks(2)
    def test_stops_what_it_comes_from(rank):
        if rank == 0:
            os.kill(os.getppid(), signal.SIGSTOP)

    @pytest.mark.ranks(2)
    def test_kills_what_it_comes_from(rank):
        if rank == 0:
            os.kill(os.getppid(), signal.SIGKILL)
        signal.pause()

    @pytest.mark.ranks(2)
    def test_next(rank):
        pass
"""

STOPS_SPARE = """
    def test_stops_what_waits():
        (spare,) = map(int, open(f"/proc/self/task/{os.getpid()}/children").read().split())
        os.kill(spare, signal.SIGSTOP)
"""
KILLS_SPARE = """
    import os
    import signal

    import pytest

    def test_kills_what_waits():
        (spare,) = map(int, open(f"/proc/self/task/{os.getpid()}/children").read().split())
        os.kill(spare, signal.SIGKILL)

    @pytest.mark.ranks(2)
    def test_in_ranks():
        pass
"""
# Ctrl-C comes as pytest reads what its agent tells.
READS = """
    import signal
    import procession.pytest.parent as parent

    told = parent._told_by
    parent._told_by = lambda agent: told(agent) and signal.raise_signal(signal.SIGINT)
"""
IN_A_FIXTURE = """
    import os
    import time

    import pytest

    import procession.pytest

    @procession.pytest.shared
    def endless():
        with open(os.environ["NOTES"], "w") as f:
            f.write(f"{os.getpid()} {os.getppid()} ")
        time.sleep(1000)

    @pytest.mark.ranks(2)
    def test_needs_it(endless):
        pass
"""

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def session(tmp_path):
    """Start pytest on a file with a test; gives the process. NOTES: where ranks note something."""

    def start(text):
        processes.append(begun(tmp_path, test_a=text, env={"NOTES": str(tmp_path / "notes")}))
        return processes[-1]

    processes = []
    yield start
    for each in processes:
        with each:
            each.kill()


def test_ctrl_c_says_where_the_ranks_were(tmp_path, session):
    pytest_ = session(ENDLESS)
    until(lambda: len(list(tmp_path.glob("notes?"))) == 2, patience=90)
    pytest_.send_signal(signal.SIGINT)
    said, _ = pytest_.communicate(timeout=60)
    assert pytest_.returncode == pytest.ExitCode.INTERRUPTED
    assert "where the ranks of test_a.py::test_endless were" in said
    assert "2 ranks [0-1] are in test_endless (test_a.py:10)" in said


def test_an_agent_that_is_stopped_goes_on_and_one_that_is_killed_costs_a_test(session):
    said, _ = session(STOPPED).communicate(timeout=90)
    assert "somebody has ended the process that ranks are forked from" in said
    assert "1 failed, 2 passed" in said, said


def test_a_process_that_waits_and_has_ended_fails_tests_at_once(session):
    said, _ = session(KILLS_SPARE).communicate(timeout=90)
    assert "the ranks could not be started" in said
    assert "1 failed, 1 passed" in said


@pytest.mark.parametrize("text", [IN_A_FIXTURE, READS + IN_A_FIXTURE, READS + ENDLESS], ids=len)
def test_ctrl_c_in_a_shared_fixture(tmp_path, session, text):
    pytest_, notes, itself = session(text), tmp_path / "notes", text.startswith(READS)
    until(lambda: itself or (notes.exists() and notes.read_text().endswith(" ")), patience=90)
    pytest_.send_signal(0 if itself else signal.SIGINT)
    said, _ = pytest_.communicate(timeout=90)
    assert pytest_.returncode == pytest.ExitCode.INTERRUPTED
    made = said.count("the shared fixture endless was being made")
    assert made == said.count("the shared fixture") == ("def endless()" in text)


@pytest.mark.long
def test_a_process_that_waits_and_is_stopped_does_not_keep_the_session(session):
    said, _ = session(STOPPED + STOPS_SPARE).communicate(timeout=90)
    assert "1 failed, 3 passed" in said, said


@pytest.mark.parametrize(
    "whose", [pytest.param("pytest", marks=pytest.mark.long), "the process that waits"]
)
def test_nothing_is_left_of_a_session_in_a_shared_fixture(tmp_path, session, whose):
    pytest_, notes = session(IN_A_FIXTURE), tmp_path / "notes"
    until(lambda: notes.exists() and notes.read_text().endswith(" "), patience=90)
    agent, spare = map(int, notes.read_text().split())
    assert alive(agent)
    os.kill(pytest_.pid if whose == "pytest" else spare, signal.SIGKILL)
    until(lambda: not alive(agent), patience=90)
    pytest_.communicate(timeout=60)
