"""However a rank ends, one test has failed, the report says how, and the next test is fresh."""

import os
import re

import pytest
from pytestruns import run

TESTS = """
    import os
    import signal
    import subprocess
    import sys
    import threading
    import time

    import pytest

    def wait():
        time.sleep(600)

    @pytest.mark.ranks(3)
    def test_crash(rank):
        print("just before", flush=True)
        if rank == 1:
            import ctypes
            ctypes.string_at(0)
        wait()

    @pytest.mark.ranks(3)
    def test_exit(rank):
        if rank == 2:
            os._exit(0)
        wait()

    @pytest.mark.ranks(2)
    def test_code(rank):
        if rank == 0:
            os._exit(7)
        wait()

    @pytest.mark.ranks(2)
    def test_killed(rank):
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        wait()

    @pytest.mark.ranks(4, timeout=1.5)
    def test_hang(rank):
        if rank == 2:
            time.sleep(500)
        wait()

    @pytest.mark.ranks(2)
    def test_thread(rank):
        if rank == 1:
            threading.Thread(target=wait, name="endless").start()

    @pytest.mark.ranks(2)
    def test_child(rank):
        if rank == 1:
            subprocess.Popen(["sleep", "601"])

    @pytest.mark.ranks(2)
    def test_daemon(rank):
        if rank == 1:
            subprocess.run(["sh", "-c", "setsid sleep 602 & echo"], check=True)

    @pytest.mark.ranks(2)
    def test_waiting_teardown(rank, stuck):
        if rank == 0:
            assert rank == 9

    @pytest.fixture
    def stuck():
        yield
        wait()

    @pytest.mark.ranks(2)
    def test_system_exit(rank):
        sys.exit(3)

    @pytest.mark.ranks(2)
    def test_after_all(rank, gather):
        assert gather(rank) == [0, 1]
"""

pytestmark = pytest.mark.timeout(180)


def test_each_way_to_fail_is_one_failed_test(tmp_path):
    found = run(tmp_path, test_a=TESTS)
    names = ["crash", "exit", "code", "killed", "hang", "thread", "child", "daemon",
             "waiting_teardown", "system_exit"]  # fmt: skip
    expected = {f"test_{name}": "failure" for name in names} | {"test_after_all": "passed"}
    assert found.outcomes == expected, found.text

    said = found.part("test_crash")
    assert "rank 1 of 3 was killed by SIGSEGV" in said
    assert re.search(r"^ranks? 0(,2)?: ended", said, re.MULTILINE), said
    assert "Captured stdout (rank 1)" in said
    assert "Fatal Python error: Segmentation fault" in said
    assert "in pytest_pyfunc_call" not in said
    assert "rank 2 of 3 exited with code 0 in its test" in found.message("test_exit")
    assert "rank 0 of 2 exited with code 7" in found.message("test_code")
    assert "rank 1 of 2 was killed by SIGKILL" in found.message("test_killed")

    said = found.part("test_hang")
    assert "the test had not ended after 1.5 s" in said
    assert said.index("rank 2 is in test_hang") < said.index("3 ranks [0-1,3] are in wait")
    assert "the test was over, but threads went on: endless of rank 1" in found.message(
        "test_thread"
    )
    assert "the test left a process behind" in found.message("test_child")
    assert "(sleep 601)" in found.message("test_child")
    assert "sleep 602" in found.message("test_daemon")
    said = found.part("test_waiting_teardown")
    assert "rank 0 of 2 failed first: assert 0 == 9" in said
    assert "rank 1: ended while in wait" in said
    assert "failed first: SystemExit: 3" in found.message("test_system_exit")
    assert os.listdir(os.environ["TMPDIR"]) == []


def test_a_rank_that_stops_the_session_does_not_wait_for_the_others(tmp_path):
    text = """
        import time

        import pytest

        @pytest.mark.ranks(2, timeout=600)
        def test_stop(rank):
            if rank == 1:
                raise KeyboardInterrupt
            time.sleep(600)
    """
    found = run(tmp_path, test_a=text)
    assert found.code == pytest.ExitCode.INTERRUPTED
    assert "KeyboardInterrupt: raised by rank 1 of 2 in test_a.py::test_stop" in found.text
    found = run(tmp_path, test_a=text.replace("raise KeyboardInterrupt", "pytest.exit('no', 9)"))
    assert found.code == 9


@pytest.mark.long
def test_a_file_outside_the_root_directory_and_fresh_interpreters(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    words = ("--rootdir", elsewhere, "-c", os.devnull, "-o", "junit_logging=all")
    found = run(
        tmp_path,
        *map(str, words),
        str(tmp_path / "test_a.py"),
        test_a="""
        import os
        import subprocess

        import pytest

        seen = []

        @pytest.mark.ranks(2, method="spawn")
        @pytest.mark.parametrize("x", ["a"])
        def test_fresh_interpreters(rank, x, gather, tmp_path):
            seen.append(1)
            assert seen == [1]
            assert gather((rank, x)) == [(0, "a"), (1, "a")]
            assert gather(str(tmp_path)) == [str(tmp_path)] * 2
            print("said by", rank)
            if rank == 1:
                subprocess.run(["sh", "-c", "setsid sleep 603 & echo"], check=True)

        @pytest.mark.ranks(2, method="keep")
        @pytest.mark.parametrize("again", range(2))
        def test_kept(rank, again):
            pass

        @pytest.mark.ranks(2)
        def test_no_word(rank, gather):
            if rank == 1:
                os.closerange(3, 1000)
            gather(rank)
        """,
    )
    expected = {"test_fresh_interpreters[a]": "failure", "test_no_word": "failure"}
    expected |= dict.fromkeys(["test_kept[0]", "test_kept[1]"], "passed")
    assert found.outcomes == expected, found.text
    assert "sleep 603" in found.message("test_fresh_interpreters[a]")
    assert found.message("test_no_word").startswith("rank 1 of 2 "), found.text
    assert "said by 1" in (tmp_path / "report.xml").read_text().partition("<system-out>")[2]
