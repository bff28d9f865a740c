"""`method="keep"`: ranks that run several tests, and new ones where a test has broken them."""

import os

import pytest
from pytestruns import run

TESTS = """
    import os
    import subprocess
    import time

    import pytest

    pytestmark = pytest.mark.ranks(2, method="keep")
    pids = []

    def note(what):
        with open(os.environ["NOTES"], "a") as notes:
            notes.write(what + chr(10))

    @pytest.fixture(scope="module")
    def whole():
        yield os.getpid()
        note("module")

    @pytest.fixture(scope="class")
    def part():
        yield
        note("class")

    def in_same(gather):
        assert pids == gather(os.getpid())

    def in_new(gather):
        assert pids == []
        pids[:] = gather(os.getpid())

    def test_first(gather, whole, tmp_path, rank):
        in_new(gather)
        (tmp_path / f"first{rank}").touch()

    def test_second(gather, whole, tmp_path, rank, capsys):
        in_same(gather)
        assert whole == os.getpid()
        assert os.listdir(tmp_path) == []
        print("captured")
        assert capsys.readouterr().out == "captured" + chr(10)

    @pytest.mark.ranks(2)
    def test_fresh_between(gather):
        assert pids == []

    class TestPart:
        def test_third(self, gather, part):
            in_same(gather)

        def test_fourth(self, gather, part):
            in_same(gather)

    class TestEndsWithASkippedOne:
        def test_fifth(self, gather):
            in_same(gather)

        @pytest.mark.skip
        def test_skipped(self):
            pass

    def test_all_fail():
        note("fails")
        assert pids == 0

    def test_kept_nevertheless(gather):
        in_same(gather)

    def test_one_fails(rank):
        if rank == 0:
            assert rank == 1
        time.sleep(600)

    def test_new_after_failure(gather):
        in_new(gather)

    def test_dies(rank):
        if rank == 1:
            os._exit(3)
        time.sleep(600)

    def test_new_after_death(gather):
        in_new(gather)

    def test_leaves(rank):
        if rank == 1:
            subprocess.Popen(["sleep", "601"])

    def test_new_after_process(gather):
        in_new(gather)

    @pytest.mark.ranks(2, method="keep", scope="class")
    def test_in_no_class():
        pass

    @pytest.mark.ranks(3, method="keep")
    def test_other_count(gather):
        in_new(gather)

    def test_last(gather, whole):
        in_new(gather)
"""
LOST = """
    import os
    import pathlib
    import signal
    import time

    import pytest

    kept = pytest.mark.ranks(2, method="keep")
    where = pathlib.Path(os.environ["NOTES"])

    @kept
    def test_before(rank):
        if rank == 1:
            where.write_text(str(os.getpid()))

    def runs(pid):
        try:
            stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            return False
        return stat.rpartition(")")[2].split()[0] != "Z"

    def test_meanwhile():
        pid = int(where.read_text())
        os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + 20
        while runs(pid):
            assert time.monotonic() < deadline

    @kept
    def test_after(gather):
        assert gather(1) == [1, 1]
"""
GROUP = """
    import pytest
    import torch
    import torch.distributed as dist

    seen = []

    @pytest.mark.ranks(2, method="keep")
    @pytest.mark.parametrize("again", range(3))
    def test_sum(again, rank, process_group):
        t = torch.tensor([rank + 1])
        dist.all_reduce(t)
        assert t.item() == 3
        seen.append(process_group)
        assert all(each is process_group for each in seen)
        assert len(seen) == again + 1

    @pytest.mark.ranks(2)
    def test_own(rank, process_group):
        t = torch.tensor([rank + 1])
        dist.all_reduce(t)
        assert t.item() == 3
"""

pytestmark = pytest.mark.timeout(120)


def test_ranks_are_kept_until_a_test_breaks_them(tmp_path):
    found = run(tmp_path, test_a=TESTS, env={"NOTES": str(tmp_path / "notes")})
    failed = ["all_fail", "one_fails", "dies", "leaves", "in_no_class", "skipped"]
    assert {n for n, o in found.outcomes.items() if o != "passed"} == {
        f"test_{name}" for name in failed
    }, found.text
    assert len(found.outcomes) == 18

    assert "new ranks" not in found.part("test_all_fail")
    assert "new ranks for the next test: ranks were ended" in found.part("test_one_fails")
    assert "rank 1 of 2 exited with code 3" in found.message("test_dies")
    assert "new ranks for the next test: ranks were ended" in found.part("test_dies")
    assert "new ranks for the next test: processes were left" in found.part("test_leaves")
    assert 'scope="class", and the test is in no class' in found.part("test_in_no_class")
    notes = (tmp_path / "notes").read_text().split()
    assert notes == ["class"] * 2 + ["fails"] * 2 + ["module"] * 2
    assert os.listdir(os.environ["TMPDIR"]) == []


def test_ranks_that_are_lost_between_two_tests_are_made_anew(tmp_path):
    found = run(tmp_path, test_a=LOST, env={"NOTES": str(tmp_path / "notes")})
    assert set(found.outcomes.values()) == {"passed"}, found.text
    assert "were lost between two tests, these are new (was killed by SIGKILL)" in found.text


def test_a_session_that_is_left_early_tears_down(tmp_path):
    notes = {"NOTES": str(tmp_path / "notes")}
    found = run(tmp_path, "-x", "-k", "first or all_fail or last", test_a=TESTS, env=notes)
    assert found.outcomes == {"test_first": "passed", "test_all_fail": "failure"}, found.text
    assert (tmp_path / "notes").read_text().split() == ["fails"] * 2 + ["module"] * 2


@pytest.mark.long
@pytest.mark.torch
@pytest.mark.timeout(300)  # torch's import alone may take a minute on a busy machine
def test_a_process_group_lives_as_long_as_its_ranks(tmp_path):
    found = run(tmp_path, test_a=GROUP, limit=280)
    assert len(found.outcomes) == 4
    assert set(found.outcomes.values()) == {"passed"}, found.text
