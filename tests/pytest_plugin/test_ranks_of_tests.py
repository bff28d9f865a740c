"""Tests in ranks are ordinary tests: fixtures, parameters, reports."""

import pytest
from pytestruns import run

CONFTEST = """
    import pytest
    import procession.pytest

    @procession.pytest.shared
    def table():
        import os
        return {"made in": os.getpid()}

    @procession.pytest.shared
    def twice(table):
        return [table, table]

    @procession.pytest.shared
    def broken():
        raise LookupError("no table")

    @pytest.fixture(scope="session")
    def whole():
        yield "session"
        print("session torn down")

    @pytest.fixture(scope="module", autouse=True)
    def around(whole):
        yield whole
"""
TESTS = """
    import os
    import unittest
    import warnings

    import pytest

    state = []

    def test_alone():
        state.append("a test has run here")

    @pytest.mark.ranks(4)
    def test_values(rank, local_rank, world_size, tmp_path, tmp_path_factory, gather):
        assert (rank, world_size, local_rank) == (int(os.environ["RANK"]), 4, rank)
        (tmp_path / str(rank)).touch()
        assert gather(str(tmp_path)) == [str(tmp_path)] * 4
        assert sorted(os.listdir(tmp_path)) == ["0", "1", "2", "3"]
        assert len(set(gather(str(tmp_path_factory.mktemp("more"))))) == 1
        assert len(set(gather(os.getpid()))) == 4

    @pytest.mark.ranks(2)
    def test_fresh():
        assert state == []
        state.append(1)

    @pytest.mark.ranks(2)
    def test_fresh_again():
        assert state == []

    @pytest.mark.ranks([1, 2, 3])
    def test_counts(world_size, gather):
        assert gather(0) == [0] * world_size

    @pytest.mark.ranks(2)
    @pytest.mark.parametrize("x", ["a", "b"])
    class TestMethods:
        def test_own(self, x, rank, capsys, monkeypatch, caplog, recwarn):
            print(x)
            assert capsys.readouterr().out == x + chr(10)
            monkeypatch.setenv("X", x)
            warnings.warn("mine")
            assert len(recwarn) == 1

    @pytest.mark.ranks(2)
    class TestUnit(unittest.TestCase):
        def setUp(self):
            self.rank = int(os.environ["RANK"])

        def test_unit(self):
            self.assertIn(self.rank, (0, 1))

    @pytest.mark.ranks(2)
    def test_shared(table, twice, gather):
        assert gather(table) == [table] * 2
        assert twice[0] is table
        assert table["made in"] not in gather(os.getpid())

    @pytest.mark.ranks(2)
    def test_shared_again(table, gather):
        assert os.getppid() == table["made in"]
        assert gather(table) == [table] * 2

    @pytest.mark.ranks(2)
    def test_broken(broken):
        pass

    @pytest.mark.ranks(2)
    def test_other(whole):
        assert whole == "session"

    @pytest.mark.ranks(2)
    def test_fails(rank):
        print(f"this is {rank}")
        value = {"a": 1}
        assert value == {"a": 2}

    @pytest.mark.ranks(3)
    def test_one_fails(rank, gather):
        if rank == 1:
            raise ValueError("only this one")
        gather(rank)

    @pytest.mark.ranks(2)
    def test_set_up(rank, request):
        request.getfixturevalue("nowhere")

    @pytest.fixture
    def torn():
        yield
        raise OSError("torn")

    @pytest.mark.ranks(2)
    def test_torn(torn):
        pass

    @pytest.mark.ranks(2)
    def test_skip(rank):
        pytest.skip("not here")

    @pytest.mark.ranks(2)
    def test_skips_differ(rank):
        if rank:
            pytest.skip("only here")

    @pytest.mark.ranks(2)
    @pytest.mark.skipif(True, reason="never")
    def test_never():
        pass

    @pytest.mark.ranks(2)
    @pytest.mark.xfail(reason="known", strict=True)
    def test_known(rank):
        assert rank == 7

    @pytest.mark.ranks(2)
    @pytest.mark.xfail(reason="known", strict=True)
    def test_known_no_more():
        pass

    @pytest.mark.ranks(2)
    @pytest.mark.xfail(reason="half", strict=False)
    def test_differs(rank):
        assert rank == 1

    @pytest.mark.ranks(2)
    def test_property(record_property, rank):
        record_property("colour", "blue")
        warnings.warn("of all ranks")

    @pytest.mark.ranks("four")
    def test_wrong():
        pass

    def test_without(rank):
        pass
"""

pytestmark = pytest.mark.timeout(180)


def test_a_test_in_ranks_is_an_ordinary_test(tmp_path):
    found = run(tmp_path, conftest=CONFTEST, test_a=TESTS)
    failed = {
        "test_broken": "error",
        "test_fails": "failure",
        "test_one_fails": "failure",
        "test_set_up": "failure",
        "test_torn": "error",
        "test_skip": "skipped",
        "test_skips_differ": "failure",
        "test_never": "skipped",
        "test_known": "skipped",
        "test_known_no_more": "failure",
        "test_differs": "failure",
        "test_wrong": "failure",
        "test_without": "error",
    }
    passed = ["test_alone", "test_values", "test_fresh", "test_fresh_again", "test_shared",
              "test_counts[1 rank]", "test_counts[2 ranks]", "test_counts[3 ranks]",
              "test_own[a]", "test_own[b]", "test_unit", "test_shared_again", "test_other",
              "test_property"]  # fmt: skip
    assert found.outcomes == {**dict.fromkeys(passed, "passed"), **failed}, found.text

    said = found.part("test_fails")
    assert said.index("failed first: AssertionError") < said.index("Differing items")
    assert "E       AssertionError: assert {'a': 1} == {'a': 2}" in said
    assert ": same failure" in said
    assert said.index("this is 0") > said.index("Captured stdout call (rank 0)")

    said = found.part("test_one_fails")
    assert "rank 1 of 3 failed first: ValueError: only this one" in said
    assert "has ended its test without gather" in said

    assert "no table" in found.message("test_broken")
    assert "rank 0 passed; rank 1 skipped it (only here)" in found.message("test_skips_differ")
    assert "rank 0 failed as expected (half); rank 1 passed" in found.message("test_differs")
    assert "XPASS(strict)" in found.message("test_known_no_more")
    assert "a count of ranks is 1 to 1024" in found.part("test_wrong")
    assert "mark the test with @pytest.mark.ranks(n)" in found.text
    assert found.text.count("UserWarning: of all ranks") == 1
    assert 'name="colour" value="blue"' in (tmp_path / "report.xml").read_text()
