"""`--ranks-from-environment`: the ranks of a launcher run one session, with one report."""

import os
import re
import signal

import pytest
from pytestruns import begun, ended, run

from seams.pytest_plugin import place_of
from support import PROCESSION, until

CONFTEST = """
    import os
    import pytest

    @pytest.fixture(scope="module", autouse=True)
    def whole():
        with open(os.environ["NOTES"], "a") as notes:
            notes.write("made ")
        yield
        with open(os.environ["NOTES"], "a") as notes:
            notes.write("torn ")
"""
TESTS = """
    import os
    import warnings

    import pytest

    @pytest.mark.ranks(2)
    def test_two(rank, world_size, gather, tmp_path):
        assert gather((rank, world_size)) == [(0, 2), (1, 2)]
        assert gather(str(tmp_path)) == [str(tmp_path)] * 2
        warnings.warn("of all ranks")

    @pytest.mark.ranks(3)
    def test_three(gather):
        assert len(set(gather(os.getpid()))) == 3

    @pytest.mark.ranks(4)
    def test_four():
        pass

    def test_alone():
        assert os.environ["RANK"] == "0"

    @pytest.mark.ranks(3)
    def test_fails(rank):
        print("said by", rank)
        if rank == 1:
            assert rank == 7

    @pytest.mark.ranks(2)
    def test_differs(rank):
        if rank == 1:
            pytest.skip("only here")

    @pytest.mark.ranks(2)
    @pytest.mark.xfail(reason="known", strict=True)
    def test_known(rank):
        assert rank == 7

    @pytest.mark.ranks("four")
    def test_wrong():
        pass

    @pytest.mark.ranks([1, 3])
    def test_counts(gather, world_size):
        assert gather(1) == [1] * world_size

    class TestOfTheSameName:
        @pytest.mark.ranks(3)
        def test_two(self, gather, tmp_path):
            assert gather(str(tmp_path)) == [str(tmp_path)] * 3
"""
STUCK = """
    import time

    import pytest

    @pytest.mark.ranks(2)
    @pytest.mark.timeout(2)
    def test_stuck(rank):
        if rank == 1:
            raise ValueError("only this one")
        print("it hangs")
        time.sleep(600)

    def test_next():
        pass
"""
LONG = """
    import os
    import time

    import pytest

    def test_first():
        pass

    @pytest.mark.ranks(3)
    def test_long(rank):
        os.mkdir(f"{os.environ['HERE']}/{rank}") or time.sleep(600)  # a single line

    def test_alone():
        os.mkdir(f"{os.environ['HERE']}/0")
        time.sleep(600)
"""
SKIPPED = """
    import pytest

    pytestmark = pytest.mark.ranks(2)
    skipped = pytest.mark.skip

    class TestFirst:
        @pytest.fixture(scope="class")
        def part(self):
            yield

        def test_a(self, part):
            pass

        @skipped
        def test_b(self, part):
            pass

    class TestSecond:
        def test_c(self, world_size):
            assert world_size == 2

        @skipped
        def test_d(self):
            pass

        @pytest.mark.ranks(3)
        def test_e(self, world_size):
            assert world_size == 3

    def test_fails():
        raise ValueError
"""
NOTES_CODES = """
    import os

    def pytest_sessionfinish(exitstatus):
        if os.environ["RANK"] == "0":
            with open(os.environ["NOTES"], "a") as notes:
                notes.write(f"{int(exitstatus)} ")
"""
SLOW_BETWEEN = """
    import os
    import time

    def pytest_runtest_logfinish():
        os.mkdir(os.environ["NOTES"])
        time.sleep(5)
"""

pytestmark = pytest.mark.timeout(120)


def launched(ranks):
    return (*PROCESSION, "run", "-n", str(ranks))


def test_a_session_of_three_ranks_has_one_report(tmp_path):
    notes = tmp_path / "notes"
    words = ("--ranks-from-environment",)
    env = {"NOTES": str(notes)}
    found = run(tmp_path, *words, env=env, prefix=launched(3), conftest=CONFTEST, test_a=TESTS)
    passed = ["test_two", "test_three", "test_alone", "test_counts[1 rank]", "test_counts[3 ranks]"]
    assert found.outcomes == {
        **dict.fromkeys(passed, "passed"),
        "test_four": "skipped",
        "test_fails": "failure",
        "test_differs": "failure",
        "test_known": "skipped",
        "test_wrong": "failure",
    }, found.text
    assert "4 ranks wanted, and the session has 3" in found.message("test_four")
    said = found.part("test_fails")
    assert "rank 1 of 3 failed first: assert 1 == 7" in said
    assert "said by 1" in said
    assert "ranks 0,2: passed" in said
    assert "rank 0 passed; rank 1 skipped it (only here)" in found.message("test_differs")
    assert found.text.count("test session starts") == 1
    done = notes.read_text().split()
    assert done.count("made") == done.count("torn")
    # The others would be taken for the failure that the launcher reports.
    assert found.code == 1
    assert re.search(r"failed: rank 0 of 3 \(pid \d+\) exited with code 1", found.text)
    assert found.text.count("UserWarning: of all ranks") == 1
    assert "1 warning" in found.text


def test_a_test_that_hangs_ends_the_session(tmp_path):
    found = run(tmp_path, "--ranks-from-environment", prefix=launched(2), test_a=STUCK)
    assert "rank 1 of 2 failed first: ValueError: only this one" in found.text
    assert "rank 0 had not ended: the session cannot go on; 1 not run" in found.text
    assert "rank 0: ended while in test_stuck (test_a.py:12)" in found.part("test_stuck")
    assert found.part("test_stuck").index("stdout (rank 0)") < found.text.index("it hangs")
    assert "rank 1 of 2 failed first: ValueError: only this one" in found.message("test_stuck")
    assert "FAILED test_a.py::test_stuck" in found.text.partition("short test summary")[2]
    assert found.code == 1
    assert os.listdir(os.environ["TMPDIR"]) == []


AT_ONCE = "os.kill(os.getpid(), signal.SIGKILL)"
IN_GATHER = "signal.setitimer(signal.ITIMER_REAL, 0.5); gather(1)"  # SIGALRM, which ends it


@pytest.mark.parametrize(
    ("dies", "body"),
    [(AT_ONCE, "gather(1)"), (IN_GATHER, "time.sleep(600)")],
)
def test_a_rank_that_is_lost_ends_the_session(tmp_path, dies, body):
    """The launcher ends rank 0 then, which reports before, wherever it is."""
    found = run(
        tmp_path,
        "--ranks-from-environment",
        prefix=launched(2),
        test_a=f"""
        import os
        import signal
        import time

        import pytest

        @pytest.mark.ranks(2)
        def test_lost(rank, gather):
            if rank == 1:
                {dies}
            {body}

        def test_never():
            pass
        """,
    )
    assert found.outcomes == {"test_lost": "failure"}, found.text
    assert found.message("test_lost") == "rank 1 of 2 has ended"
    assert found.text.count("short test summary") == 1
    assert ("where the ranks were" in found.text) == ("sleep" in body), found.text


def test_fixtures_do_not_outlive_a_test_that_was_skipped(tmp_path):
    """What they were left for was not run in the ranks, which came from another test, or count."""
    notes = tmp_path / "notes"
    words, env = ("--ranks-from-environment",), {"NOTES": str(notes)}
    found = run(tmp_path, *words, env=env, prefix=launched(3), conftest=NOTES_CODES, test_a=SKIPPED)
    outcomes = {"test_fails": "failure", "test_b": "skipped", "test_d": "skipped"}
    passed = dict.fromkeys(("test_a", "test_c", "test_e"), "passed")
    assert found.outcomes == {**outcomes, **passed}, found.text
    assert notes.read_text().split() == ["1", "1"]  # plugins of rank 0 know how it ended, too


def test_a_rank_that_is_lost_is_not_asked_again(tmp_path):
    pytest.importorskip("pytest_rerunfailures")
    test = """
        import os

        import pytest

        @pytest.mark.ranks(2)
        def test_lost(rank):
            if rank == 1:
                os._exit(3)
    """
    found = run(tmp_path, "--ranks-from-environment", "--reruns=1", prefix=launched(2), test_a=test)
    assert found.message("test_lost") == "rank 1 of 2 has ended"


@pytest.mark.long
def test_ctrl_c_between_two_tests(tmp_path):
    words, env = ("--ranks-from-environment", "-k", "first or alone"), {"NOTES": f"{tmp_path}/at"}
    process = begun(
        tmp_path, *words, env=env, prefix=launched(2), conftest=SLOW_BETWEEN, test_a=LONG
    )
    try:
        until((tmp_path / "at").exists, patience=90)
    finally:
        process.send_signal(signal.SIGINT)
        found = ended(process, tmp_path)
    assert "KeyboardInterrupt: raised by rank 0 of 2" in found.text
    assert "1 passed" in found.text


def ended_by_launcher(where, signum, test, ranks):
    """Run LONG in 3 ranks; send their launcher a signal when `ranks` of them are in a test."""
    here = where / "here"
    here.mkdir()
    words = ("--ranks-from-environment", "-k", f"first or {test}")
    process = begun(where, *words, env={"HERE": str(here)}, prefix=launched(3), test_a=LONG)
    try:
        until(lambda: len(os.listdir(here)) == ranks, patience=90)
    finally:
        # Once, to the launcher alone: `timeout` sends a second one, on which a launcher kills.
        process.send_signal(signum)
        found = ended(process, where)
    return found


def test_a_session_that_its_launcher_ends_has_a_report(tmp_path):
    found = ended_by_launcher(tmp_path, signal.SIGTERM, "alone", 1)
    assert found.outcomes == {"test_first": "passed", "test_alone": "failure"}, found.text
    assert "the launcher has ended this session (SIGTERM)" in found.message("test_alone")
    assert "short test summary" in found.text


@pytest.mark.parametrize(
    ("signum", "said"),
    [
        (signal.SIGTERM, "the launcher has ended this session (SIGTERM); ranks 0-2 had not ended"),
        (signal.SIGINT, "where the ranks of test_a.py::test_long were"),
    ],
)
def test_the_places_of_ranks_that_their_launcher_ends(tmp_path, signum, said):
    """The other ranks wait for the report of rank 0."""
    found = ended_by_launcher(tmp_path, signum, "long", 3)
    assert said in found.text
    assert "3 ranks [0-2] are in test_long (test_a.py:12)" in found.text
    if signum == signal.SIGTERM:
        assert found.outcomes == {"test_first": "passed", "test_long": "failure"}, found.text
    else:
        assert "KeyboardInterrupt" in found.text


def test_what_ranks_measure_is_added_up(tmp_path):
    pytest.importorskip("pytest_cov")
    lib = """
        def used(rank):
            if rank == 1:
                return "only rank 1 comes here"
            return "the others"
    """
    test = """
        import lib
        import pytest

        @pytest.mark.ranks(2)
        def test_measured(rank):
            assert lib.used(rank)
    """
    words = ("--ranks-from-environment", "--cov=lib", "--cov-report=term-missing")
    found = run(tmp_path, *words, prefix=launched(2), test_a=test, lib=lib)
    assert re.search(r"lib\.py +\d+ +0 +100%", found.text), found.text


def test_without_a_launcher_it_is_refused(tmp_path):
    found = run(tmp_path, "--ranks-from-environment", test_a=TESTS)
    assert "no launcher has started this process" in found.text
    assert found.code == pytest.ExitCode.USAGE_ERROR


def test_what_launchers_say():
    torchrun = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_PORT": "9"}
    slurm = {"SLURM_PROCID": "1", "SLURM_NTASKS": "2", "SLURM_NNODES": "1"}
    open_mpi = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}
    mpich = {"PMI_RANK": "1", "PMI_SIZE": "2"}
    for said in (torchrun, slurm, open_mpi, mpich):
        place = place_of(said, 7)
        assert (place.number, place.size) == (1, 2)
        assert place_of({**said}, 7).name == place.name
    # Runs at the same time differ.
    assert place_of({**torchrun, "MASTER_PORT": "1"}, 7).name != place_of(torchrun, 7).name
    assert place_of(mpich, 7).name != place_of(mpich, 8).name
    for several in ({**torchrun, "LOCAL_WORLD_SIZE": "1"}, {**slurm, "SLURM_NNODES": "2"}):
        with pytest.raises(ValueError, match="on several machines"):
            place_of(several, 7)
