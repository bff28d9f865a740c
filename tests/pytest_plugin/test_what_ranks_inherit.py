"""What ranks have of pytest's process, what they leave, and what is said of both."""

from pytestruns import run

STATE = """
    import os
    import random
    import socket
    import stat

    import pytest

    random.seed(7)
    first = random.Random(7).random()

    @pytest.mark.ranks(3)
    @pytest.mark.parametrize("time", [1, 2])
    def test_random_goes_on_from_the_import(time, gather):
        assert gather(random.random()) == [first] * 3

    @pytest.mark.ranks(2)
    def test_reads_from_each_socket():
        for word in os.listdir("/proc/self/fd"):
            try:
                if not stat.S_ISSOCK(os.fstat(int(word)).st_mode):
                    continue
            except OSError:
                continue  # that of the listing
            with socket.socket(fileno=os.dup(int(word))) as mine:
                try:
                    mine.recv(4096, socket.MSG_DONTWAIT)
                except OSError:
                    pass  # nothing has come, or it is no connection
        raise AssertionError("on purpose")

    @pytest.mark.ranks(2)
    def test_after_that(gather, tmp_path_factory):
        assert gather(1) == [1, 1]
        assert "directories" in repr(tmp_path_factory)

    @pytest.mark.ranks(n=2)
    def test_number_by_its_name(world_size):
        assert world_size == 2
"""
LEFT = """
    import concurrent.futures
    import multiprocessing
    import subprocess
    import time

    import pytest

    import procession.pytest

    fork = multiprocessing.get_context("fork")
    kept = []

    @pytest.mark.ranks(2)
    def test_workers_that_python_ends():
        kept.append(concurrent.futures.ProcessPoolExecutor(1, mp_context=fork))
        assert kept[0].submit(pow, 3, 2).result() == 9

    @pytest.mark.ranks(1)
    def test_about_to_end():
        fork.Process(target=time.sleep, args=(0.1,)).start()

    @procession.pytest.shared
    def starting():
        return subprocess.Popen(["sleep", "1000"]).pid

    @pytest.mark.ranks(2)
    def test_fixture_that_starts_a_process(starting):
        raise AssertionError("never")

    @pytest.mark.ranks(2, timeout=2)
    def test_over_time(gather):
        gather(1)
        time.sleep(1000)

    @pytest.mark.ranks(0)
    def test_wrong():
        raise AssertionError("never")
"""


def test_state_and_descriptors(tmp_path):
    done = run(tmp_path, test_a=STATE)
    assert [n for n, o in done.outcomes.items() if o != "passed"] == ["test_reads_from_each_socket"]
    assert "on purpose" in done.message("test_reads_from_each_socket")


def test_what_is_left_and_said(tmp_path):
    done = run(tmp_path, "--durations=1", test_a=LEFT)
    failed = {n for n, o in done.outcomes.items() if o != "passed"}
    assert failed == {f"test_{n}" for n in ("fixture_that_starts_a_process", "over_time", "wrong")}
    text = done.text.partition("has started a process")[2]
    assert text.startswith(", which was ended: pid ")
    assert "(sleep 1000)" in text.partition(chr(10))[0]
    wrong = done.part("test_wrong")
    assert wrong.count("a count of ranks is 1 to 1024, not 0") == 1
    assert "another exception" not in wrong
    slowest = done.text.partition("slowest 1 durations")[2].splitlines()[1]
    assert slowest.endswith("test_a.py::test_over_time")
    assert float(slowest.split("s ")[0]) >= 2
