"""The plugin as pytest loads it in every session: its options and its mark.

Everything else is imported when a session has tests with ranks.
"""

from __future__ import annotations

import argparse

import pytest

from procession.pytest import fixtures
from procession.pytest.marks import COUNT, FORM, MOST, asked_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options."""
    group = parser.getgroup("ranks", "tests in ranks (procession)")
    group.addoption(
        "--ranks",
        type=_count,
        metavar="N",
        help="run every test that is marked with ranks(...) in N ranks",
    )
    group.addoption(
        "--ranks-at-once",
        type=_count,
        metavar="N",
        help="ranks that all workers of pytest-xdist together may run at a time "
        "(default: twice the number of CPUs)",
    )
    group.addoption(
        "--ranks-template",
        action="store_true",
        help="processes that tests start by multiprocessing's or torch's spawn are forks of a "
        "process that has imported the tests, and run none",
    )
    group.addoption(
        "--ranks-from-environment",
        action="store_true",
        help="the processes that torchrun, mpirun, srun or `procession run` have started with this "
        "line are the ranks of all tests; one report",
    )
    parser.addini(
        "ranks_timeout",
        "seconds after which a test in ranks has failed, where nothing else says it; 0: no limit",
        default="300",
    )


def _count(text: str) -> int:
    if text.isdecimal() and len(text) < 10 and 1 <= int(text) <= MOST:
        return int(text)
    raise argparse.ArgumentTypeError(f"a count of ranks is 1 to {MOST}, not {text!r}")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Declare the mark, and give tests our fixtures."""
    config.addinivalue_line("markers", f"ranks(n): run the test in n ranks; {FORM}")
    config.pluginmanager.register(fixtures, "procession-fixtures")
    if config.getoption("--ranks-from-environment") and not config.getoption("collectonly"):
        from procession.pytest.launched import begin_session

        begin_session(config)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make one test for each count of ranks, where a mark has a list."""
    try:
        asked = asked_of(metafunc.definition)
    except ValueError:
        return  # the test says it, when it is run
    if asked is None or not asked.several:
        return
    only: int | None = metafunc.config.getoption("--ranks")
    counts = asked.counts if only is None else [only]
    metafunc.fixturenames.append(COUNT)
    ids = [f"{n} rank" if n == 1 else f"{n} ranks" for n in counts]
    metafunc.parametrize(COUNT, counts, indirect=True, ids=ids)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: Any) -> None:
    """Start what ranks are forked from, before any test runs."""
    config = session.config
    if config.getoption("--ranks-from-environment"):
        return
    marked = [item for item in session.items if item.get_closest_marker("ranks")]
    wanted = marked or (session.items and config.getoption("--ranks-template"))
    if wanted and not config.option.collectonly and not config.pluginmanager.has_plugin("ranks"):
        if config.getoption("trace") and marked:
            raise pytest.UsageError(
                f"--trace stops at the begin of each test, and {marked[0].nodeid} is several at "
                "once: deselect tests with ranks (-m 'not ranks'), or use --pdb"
            )
        from procession.pytest.parent import Parent

        config.pluginmanager.register(Parent(session), "ranks")
