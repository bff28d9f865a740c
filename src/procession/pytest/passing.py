"""What ranks pass on to the session, besides the outcome of their test."""

from __future__ import annotations

import pickle

import pytest

from procession.pytest.verdict import place_of_failure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def pass_on(config: Any, came: dict[str, Any], item: Any) -> None:
    """Let the session know what ranks want it to know; what `came["here"]` warned of, it knows.

    A rank that ends the session after it has failed was told to by whoever debugged it: this is
    only noted, in `came["quit"]`, for when the failure has been reported.
    """
    warned: set[str] = set()
    for rank, told in enumerate(came["ranks"]):
        for said in told["reports"]:
            if "warning" in said:
                body, words, filename, lineno, when, nodeid = said["warning"]
                known = words + filename + str(lineno) in warned
                warned.add(words + filename + str(lineno))
                if not known and rank != came.get("here"):
                    warn(config, _warning_of(body, words), filename, lineno, when, nodeid)
            elif "exit" in said:
                if place_of_failure(told) is None:
                    pytest.exit(said["exit"], said["code"])
                came["quit"] = (said["exit"], said["code"])
            elif "interrupt" in said:
                raise KeyboardInterrupt(said["interrupt"])
    reports = [report for report in came["ranks"][0]["reports"] if "user_properties" in report]
    if reports:
        item.user_properties[:] = [tuple(each) for each in reports[-1]["user_properties"]]


def _warning_of(body: bytes, words: str) -> Warning:
    """Make the warning of a rank again. Its class may be one that cannot travel: then its words."""
    try:
        found = pickle.loads(body)
    except Exception:
        found = None
    return found if isinstance(found, Warning) else UserWarning(words)


def warn(config: Any, message: Warning, filename: str, lineno: int, when: str, nodeid: str) -> None:
    """Let the session know of a warning."""
    import warnings

    found = warnings.WarningMessage(message, type(message), filename, lineno)
    config.hook.pytest_warning_recorded.call_historic(
        kwargs={
            "warning_message": found,
            "when": when,
            "nodeid": nodeid,
            "location": None,
        }
    )
