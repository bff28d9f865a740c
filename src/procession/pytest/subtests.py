"""Subtests in ranks (`subtests.test`, `unittest`'s `subTest`): one report for those of one name.

Theory of operation. A subtest reports itself while its test runs. In a rank nobody shows that, so
it is sent to pytest's process beside the reports of the phases (`inrank`). There, the subtests of
all ranks with the same name are one, with one verdict, as the ranks of a test are.
"""

from __future__ import annotations

from procession.pytest.reporting import longrepr_of
from procession.pytest.verdict import merged

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Told = dict[str, Any]
    Key = tuple[str, int]


def report(item: Any, came: Told) -> None:
    """Report the subtests of a test to the session. came: what is said of the test."""
    size = len(came["ranks"])
    found: dict[Key, list[Told]] = {}
    for rank, told in enumerate(came["ranks"]):
        count: dict[str, int] = {}
        for said in told["reports"]:
            if "subtest" in said:
                name = str(said["name"])
                count[name] = count.get(name, 0) + 1  # it may be there several times
                ranks = found.setdefault((name, count[name]), [_absent() for _ in range(size)])
                ranks[rank].update(reports=[said["subtest"]], absent=False, fails=said["fails"])
    for ranks in found.values():
        of_all = _merged(item.config, ranks)
        if of_all.failed and any(each["fails"] for each in ranks):
            count_failure(item)
        item.ihook.pytest_runtest_logreport(report=of_all)


def failures_of(item: Any) -> int:
    """Say how many subtests of the fixture `subtests` have failed: then the test has failed, too.

    pytest counts them where they run, and looks at the number where tests are reported.
    """
    counts = _counts(item)
    return 0 if counts is None else counts[_key(item)]


def count_failure(item: Any) -> None:
    """Count one that failed elsewhere."""
    counts = _counts(item)
    if counts is not None:
        counts[_key(item)] += 1


def _counts(item: Any) -> Any:
    try:
        from _pytest.subtests import failed_subtests_key
    except ImportError:
        return None  # a pytest before 9, whose plugin for subtests has no such count
    return item.config.stash[failed_subtests_key]


def _key(item: Any) -> Any:
    return getattr(item, "id", item.nodeid)


def _absent() -> Told:
    return {"reports": [], "done": True, "left": [], "failed_at": 0, "absent": True, "fails": False}


def _merged(config: Any, ranks: list[Told]) -> Any:
    """Make one report of the subtests of one name. ranks: what each has reported."""
    came = {"ranks": ranks, "timeout": False, "lingered": False, "left": []}
    verdict = merged(came, 0.0)
    told = next(each for each in ranks if not each["absent"])
    if verdict.first is not None:
        told = ranks[verdict.first]
    data = dict(told["reports"][0])
    data.update(duration=verdict.seconds, sections=list(verdict.sections))
    longrepr: Any = None
    if verdict.outcome == "failed":
        longrepr = longrepr_of(config, verdict)
        data.update(outcome="failed", longrepr=None)
    found = config.hook.pytest_report_from_serializable(config=config, data=data)
    context = getattr(found, "context", None)
    if context is not None and "_subtest.context" in data:
        # pytest takes the words for the values that it had made them of, and quotes them again.
        object.__setattr__(context, "kwargs", dict(data["_subtest.context"]["kwargs"]))
    if longrepr is not None:
        found.longrepr = longrepr
    return found
