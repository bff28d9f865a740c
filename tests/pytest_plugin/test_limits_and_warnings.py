"""Time limits of any size, and what ranks warn of."""

import pytest
from pytestruns import run

LIMITS = """
    import pytest

    @pytest.mark.ranks(2, timeout=1e9)
    def test_years():
        pass

    @pytest.mark.ranks(2, timeout=1e300)
    def test_ages():
        pass

    @pytest.mark.ranks(2, timeout=float("nan"))
    def test_nan():
        pass

    @pytest.mark.ranks(2, timeout=float("inf"))
    def test_infinity():
        pass

    @pytest.mark.ranks(2, timeout=-1)
    def test_negative():
        pass

    @pytest.mark.ranks(2, timeout=10**400)
    def test_no_float():
        pass

    @pytest.mark.ranks(2)
    def test_usual():
        pass
"""
WARNINGS = """
    import warnings

    import pytest

    class Odd(UserWarning):
        def __init__(self, one, two):
            super().__init__(one)

    @pytest.mark.ranks(2)
    def test_each(rank):
        warnings.warn(f"of rank {rank}")

    @pytest.mark.ranks(2)
    def test_all():
        warnings.warn("of all ranks", DeprecationWarning)

    @pytest.mark.ranks(2, method="spawn")
    def test_spawn():
        warnings.warn("of fresh interpreters")

    @pytest.mark.ranks(2, method="keep")
    def test_kept():
        warnings.warn("of ranks that are kept")

    @pytest.mark.ranks(2)
    def test_odd():
        warnings.warn(Odd("that cannot travel", 2))
"""

pytestmark = pytest.mark.timeout(180)


def test_a_limit_may_be_long_and_must_be_a_number_of_seconds(tmp_path):
    found = run(tmp_path, "-o", "ranks_timeout=soon", test_a=LIMITS)
    good = ["test_years", "test_ages"]
    bad = {"test_nan": "not nan", "test_infinity": "not inf", "test_negative": "not -1",
           "test_no_float": "not 1000", "test_usual": "not 'soon'"}  # fmt: skip
    assert found.outcomes == dict.fromkeys(good, "passed") | dict.fromkeys(bad, "failure")
    for name, said in bad.items():
        assert "must be seconds, 0 for no limit" in found.message(name)
        assert said in found.message(name)
    assert "the ini option ranks_timeout must be" in found.message("test_usual")


@pytest.mark.long
def test_each_warning_of_ranks_is_in_the_summary_once(tmp_path):
    found = run(tmp_path, "-n", "2", test_a=WARNINGS)
    assert len(found.outcomes) == 5
    assert set(found.outcomes.values()) == {"passed"}, found.text
    expected = ["UserWarning: of rank 0", "UserWarning: of rank 1",
                "DeprecationWarning: of all ranks", "UserWarning: of fresh interpreters",
                "UserWarning: of ranks that are kept", "UserWarning: Odd: that cannot travel",
                ]  # fmt: skip
    for each in expected:
        assert found.text.count(each) == 1, found.text
    assert "6 warnings" in found.text
