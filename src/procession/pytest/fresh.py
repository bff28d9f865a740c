"""A rank that is a fresh interpreter (`method="spawn"`): it collects its one test, and runs it."""

from __future__ import annotations

import pickle
from importlib import import_module

import pytest

from procession.pytest import inrank, renew
from procession.pytest.talk import Rank, introduced

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Options of the session that are not for its ranks, and what they are in a rank.
NOT_FOR_RANKS: dict[str, Any] = {
    "numprocesses": None,
    "dist": "no",
    "distload": False,
    "tx": [],
    "collectonly": False,
    "xmlpath": None,
    "lf": False,
    "failedfirst": False,
    "cov_source": [],
    "ranks_template": False,
    "keyword": "",
    "markexpr": "",
    "deselect": [],
}


def options_of(config: Any) -> dict[str, Any]:
    """Give the options of a session as far as they can travel to a rank."""
    found: dict[str, Any] = {}
    options: dict[str, Any] = config.option.__dict__
    for name, value in options.items():
        try:
            pickle.dumps(value)
            found[name] = value
        except Exception:
            pass  # a plugin's own object: the plugin makes another one
    known = {name: value for name, value in NOT_FOR_RANKS.items() if name in found}
    return {**found, **known}


def run(knock: Any, files: str, options: dict[str, Any], where: str, nodeid: str) -> None:
    """Be a rank that has nothing of pytest's process.

    knock: the connection by which a rank introduces itself. files: the directory for what ranks
    write. options: of the session. where: the file and the name of the test, as an argument of
    pytest. nodeid: the test's.
    """
    line = introduced(knock.fileno())
    request = inrank.next_request(line)
    if request is None:
        return
    rank = Rank(request, line)
    with inrank.Telling(rank):
        config: Any = import_module("_pytest.config").Config.fromdictargs(options, [where])
        config.pluginmanager.register(_Loop(rank, request, files, nodeid), "ranks")
        config.hook.pytest_cmdline_main(config=config)


class _Loop:
    """Runs the one test instead of all."""

    def __init__(self, rank: Rank, request: dict[str, Any], files: str, nodeid: str) -> None:
        self._rank = rank
        self._request = request
        self._files = files
        self._nodeid = nodeid

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self, session: Any) -> None:
        """Write nothing, not even that a session begins."""
        renew.silence(session.config)

    def pytest_collection_finish(self, session: Any) -> None:
        """Take note of what has been collected."""
        self._items = [item for item in session.items if item.nodeid == self._nodeid]

    def pytest_runtestloop(self, session: Any) -> bool:
        """Run the test."""
        if not self._items:
            raise session.Failed(f"{self._nodeid} was not found again in a rank")
        before = session.config._tmp_path_factory
        try:
            inrank.prepare(session.config)
            inrank.begin(session.config, self._files)
            inrank.run_item(self._items[0], self._rank, self._request)
        finally:
            session.config._tmp_path_factory = before  # the session's end is about its own
        return True
