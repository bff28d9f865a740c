"""Subtests in ranks: those of one name are one, with one verdict."""

import pytest
from pytestruns import run

TESTS = """
    import unittest

    import pytest

    @pytest.mark.ranks(3)
    def test_fixture(rank, subtests):
        for number in range(3):
            with subtests.test("even", number=number):
                assert number != 1 or rank == 0
        with subtests.test(rank=rank):
            assert rank < 2

    @pytest.mark.ranks(2)
    class TestCase(unittest.TestCase):
        def test_unittest(self):
            for number in range(3):
                with self.subTest(number=number):
                    assert number < 2
"""

pytestmark = pytest.mark.timeout(120)


def test_subtests_of_one_name_have_one_verdict(tmp_path):
    pytest.importorskip("_pytest.subtests", reason="pytest has subtests since 9.0")
    found = run(tmp_path, "-v", test_a=TESTS)
    summary = found.text.partition("short test summary")[2].splitlines()
    bad = [line for line in summary if line.startswith(("SUBFAILED", "FAILED"))]
    assert [line.partition(" - ")[0] for line in bad] == [
        "SUBFAILED[even] (number=1) test_a.py::test_fixture",
        "SUBFAILED(rank=2) test_a.py::test_fixture",
        "FAILED test_a.py::test_fixture",
        "SUBFAILED(number=2) test_a.py::TestCase::test_unittest",
    ], found.text
    assert "contains 2 failed subtests" in bad[2]
    assert "rank 0: passed" in found.part("test_fixture [even] (number=1)")
    own = found.part("test_fixture (rank=2)")
    assert "rank 2 of 3 failed first" in own
    assert "other ranks" not in own, "no other rank has this subtest"
    assert "6 subtests passed" in found.text
