"""Ranks of the next test, which are forked while those of a test end."""

from pytestruns import run

TESTS = """
    import os
    import signal
    import sys
    import time

    import pytest

    def named(name):
        '''Find the processes that are the ranks of a test, by their short names.'''
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/comm") as f:
                    own = f.read().rpartition(":")[0]
                with open(f"/proc/{pid}/environ", "rb") as f:
                    ours = os.environ["OURS"].encode() in f.read()
            except OSError:
                continue
            if ours and own and name.startswith(own):
                found.append(int(pid))
        return found

    def when(condition):
        deadline = time.monotonic() + 30
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(0.01)
"""
WHO_WAITS = """
    @pytest.mark.ranks(2)
    def test_before(rank):
        if rank:
            when(lambda: len(named("test_killed")) == 3)
            for pid in named("test_killed"):
                os.kill(pid, signal.SIGKILL)
            when(lambda: not named("test_killed"))

    @pytest.mark.ranks(3)
    def test_killed(gather):
        assert gather(1) == [1, 1, 1]

    @pytest.mark.ranks(3)
    def test_after(gather):
        assert gather(1) == [1, 1, 1]
"""
OTHERS = """
    tried = os.environ["TRIED"]

    @pytest.mark.ranks(2)
    def test_flaky(rank):
        if rank:
            when(lambda: named("test_next"))
            first = not os.path.exists(tried)
            open(tried, "w").close()
            assert not first

    @pytest.mark.ranks(2)
    @pytest.mark.skip(reason="not today")
    def test_next():
        raise AssertionError

    @pytest.mark.ranks(2)
    def test_last(gather):
        assert gather(1) == [1, 1]
"""
LAST = """
    @pytest.mark.ranks(2)
    def test_fails(rank):
        if rank:
            when(lambda: named("test_never"))
            assert False, "on purpose"

    @pytest.mark.ranks(2)
    def test_never():
        raise AssertionError
"""


def test_ranks_that_are_lost_before_their_test_are_replaced(tmp_path):
    done = run(tmp_path, env={"OURS": str(tmp_path)}, test_a=TESTS + WHO_WAITS)
    assert done.outcomes == dict.fromkeys(("test_before", "test_killed", "test_after"), "passed")


def test_another_test_than_expected_comes_next(tmp_path):
    tried = str(tmp_path / "tried")
    env = {"OURS": str(tmp_path), "TRIED": tried}
    done = run(tmp_path, "--reruns", "1", env=env, test_a=TESTS + OTHERS)
    assert done.outcomes == {"test_flaky": "passed", "test_next": "skipped", "test_last": "passed"}
    assert "1 rerun" in done.text


def test_no_rank_stays_when_no_test_comes_any_more(tmp_path):
    done = run(tmp_path, "-x", env={"OURS": str(tmp_path)}, test_a=TESTS + LAST)
    assert done.outcomes == {"test_fails": "failure"}
    assert "on purpose" in done.part("test_fails")
    assert done.code == 1
