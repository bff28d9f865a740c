"""A rank that is a fresh interpreter (`method="spawn"`): it collects its one test, and runs it."""

from __future__ import annotations

import pickle
from importlib import import_module

import pytest

from procession.pytest import inrank, renew

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


def run(options: dict[str, Any], where: str, nodeid: str, number: int) -> None:
    """Be a rank that has nothing of pytest's process.

    options: of the session. where: the file and the name of the test, as an argument of pytest.
    nodeid, number: the test's, in pytest's process.
    """
    config: Any = import_module("_pytest.config").Config.fromdictargs(options, [where])
    loop = _Loop(nodeid, number)
    config.pluginmanager.register(loop)
    config.hook.pytest_cmdline_main(config=config)
    if not loop.found:
        raise LookupError(f"{nodeid} was not found again in a rank")


class _Loop:
    """Runs the one test instead of all."""

    def __init__(self, nodeid: str, number: int) -> None:
        self._nodeid = nodeid
        self._number = number
        self.found = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self, session: Any) -> None:
        """Write nothing, not even that a session begins."""
        inrank.prepare(session.config)

    def pytest_runtestloop(self, session: Any) -> bool:
        """Run the test, if it has been collected."""
        item = next((item for item in session.items if item.nodeid == self._nodeid), None)
        if item is None:
            return True
        self.found = True
        renew.one_thread()
        session.items[:] = [item] * (self._number + 1)  # so it has its number
        inrank.Program(session)()
        return True
