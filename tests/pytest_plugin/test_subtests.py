"""Subtests in ranks: each rank's own are reported, and fail its test."""

import re

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


def test_subtests_of_each_rank_are_reported(tmp_path):
    pytest.importorskip("_pytest.subtests", reason="pytest has subtests since 9.0")
    found = run(tmp_path, "-v", test_a=TESTS)
    summary = found.text.partition("short test summary")[2].splitlines()
    bad = [line for line in summary if line.startswith(("SUBFAILED", "FAILED"))]
    assert [line.partition(" - ")[0] for line in bad] == [
        "SUBFAILED[rank 1: even] (number=1) test_a.py::test_fixture",
        "SUBFAILED[rank 2: even] (number=1) test_a.py::test_fixture",
        "SUBFAILED[rank 2] (rank=2) test_a.py::test_fixture",
        "FAILED test_a.py::test_fixture",
        "SUBFAILED[rank 0] (number=2) test_a.py::TestCase::test_unittest",
        "SUBFAILED[rank 1] (number=2) test_a.py::TestCase::test_unittest",
    ], found.text
    assert re.search(r"rank [12] of 3 failed first: contains [12] failed subtest", bad[3])
    assert "13 subtests passed" in found.text
