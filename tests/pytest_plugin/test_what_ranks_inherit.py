"""What ranks have of pytest's process, what they leave, and what is said of both."""

import re
import textwrap

from pytestruns import run

TESTS = """
    import concurrent.futures
    import multiprocessing
    import os
    import random
    import socket
    import stat
    import subprocess
    import threading
    import time

    import pytest

    import procession.pytest

    random.seed(7)
    first = random.Random(7).random()

    @pytest.mark.ranks(3)
    @pytest.mark.parametrize("again", [1, 2])
    def test_random_goes_on_from_the_import(again, gather):
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

    @procession.pytest.shared
    def going_on():
        threading.Thread(target=threading.Event().wait, name="endless").start()

    @pytest.mark.ranks(2)
    def test_fixture_that_starts_a_thread(going_on):
        raise AssertionError("never")

    @pytest.mark.ranks([2, 2])
    def test_twice():
        raise AssertionError("never")

    @pytest.mark.ranks(2)
    def test_breakpoint(rank):
        if rank:
            breakpoint()

    def parent_of(pid):
        try:
            with open(f"/proc/{pid}/stat") as f:
                return int(f.read().rpartition(")")[2].split()[1])
        except OSError:
            return 0

    @pytest.mark.ranks(2)
    @pytest.mark.parametrize("again", range(3))
    def test_helper_of_multiprocessing_that_ends_after_its_rank(again, rank, gather):
        if rank == 0:
            from multiprocessing import resource_tracker
            resource_tracker.ensure_running()
            gather((os.getpid(), resource_tracker._resource_tracker._pid))
        else:
            first, helper = gather(None)[0]
            while parent_of(helper) == first:
                pass

    @pytest.mark.ranks(2, timeout=2)
    def test_over_time(gather):
        gather(1)
        time.sleep(1000)

    @pytest.mark.ranks(0)
    def test_wrong():
        raise AssertionError("never")
"""


def test_what_is_left_and_said(tmp_path):
    done = run(tmp_path, "--durations=1", test_a=TESTS)
    failed = {n for n, o in done.outcomes.items() if o != "passed"}
    bad = ("reads_from_each_socket", "fixture_that_starts_a_process", "twice", "breakpoint",
           "fixture_that_starts_a_thread", "over_time", "wrong")  # fmt: skip
    assert failed == {f"test_{n}" for n in bad}
    assert "on purpose" in done.message("test_reads_from_each_socket")
    said = done.message("test_fixture_that_starts_a_thread")
    assert "the shared fixture going_on has started the thread endless" in said
    assert "a count of ranks is given twice: [2, 2]" in done.message("test_twice")
    said = done.message("test_breakpoint")
    assert "rank 1 of 2 failed first: RuntimeError: this process cannot be debugged: pyt" in said
    said = done.message("test_fixture_that_starts_a_process")
    assert re.search(r"fixture starting has started pid \d+ \(sleep 1000\), which", said)
    wrong = done.part("test_wrong")
    assert wrong.count("a count of ranks is 1 to 1024, not 0") == 1
    assert "another exception" not in wrong
    slowest = done.text.partition("slowest 1 durations")[2].splitlines()[1]
    assert slowest.endswith("test_a.py::test_over_time")
    assert float(slowest.split("s ")[0]) >= 2


TORCH = """
    import os

    with open(os.environ["NOTES"], "a") as notes:
        notes.write("!")

    class cuda:
        device_count = staticmethod(lambda: 0)

    class backends:
        class cuda:
            is_built = staticmethod(lambda: True)

    device = str
    set_num_threads = print
"""


def test_torch_is_imported_once_for_our_fixtures(tmp_path):
    """The tests do not import it themselves."""
    package = tmp_path / "torch"
    package.mkdir()
    (package / "__init__.py").write_text(textwrap.dedent(TORCH))
    (package / "distributed.py").touch()
    notes = tmp_path / "notes"
    test = """
        import pytest

        @pytest.mark.ranks(3)
        @pytest.mark.parametrize("again", range(2))
        def test_device(device, again):
            assert device == "cpu"
    """
    done = run(tmp_path, env={"NOTES": str(notes)}, test_a=test)
    assert set(done.outcomes.values()) == {"passed"}, done.text
    assert notes.read_text() == "!"
