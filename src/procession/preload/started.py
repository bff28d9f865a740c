"""Packages that started something when they were imported: left out of later runs.

One file in the user's cache directory has them. A package counts until its file changes, and for a
day at most: a variable may have been at fault.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any

from procession.system.directories import read_cached, write_cached
from procession.values.spec import Spec

DIRECTORY, FILE = "preload", "started.json"
LASTS = 86_400.0  # seconds


def remembered(file: str) -> Any:
    """Give what `remember` has written to a file of this name; None if it is not there, or torn."""
    try:
        return json.loads(read_cached(DIRECTORY, file) or "null")
    except ValueError:
        return None


def remember(file: str, what: Any) -> None:
    """Keep plain data for later runs. Where nothing can be written, nothing is kept."""
    write_cached(DIRECTORY, file, json.dumps(what).encode())


def left_out() -> dict[str, str]:
    """Give the packages that are left out, each with the reason."""
    return {package: str(why) for package, (why, *_) in _known().items()}


def leave_out(package: str, why: str) -> None:
    """Leave a package out of later runs."""
    from importlib.util import find_spec

    spec = find_spec(package)
    file = spec.origin or "" if spec is not None else ""
    remember(FILE, {**_known(), package: [why, file, _changed(file), time.time()]})


def _known() -> dict[str, Any]:
    since = time.time() - LASTS
    try:
        known: dict[str, Any] = dict(remembered(FILE) or {})
        return {
            package: [why, file, at, when]
            for package, (why, file, at, when) in known.items()
            if _changed(file) == at and when > since
        }
    except (ValueError, TypeError):
        return {}  # it is damaged


def told_of(spec: Spec, unfit: str, culprit: str) -> str:
    """Say that ranks are not forked, and leave out the package whose import is at fault.

    unfit: why they are not. culprit: the module, "" if that is not known.
    """
    so = "loads for itself" if spec.shared is not None else "nothing is preloaded"
    said = f"{unfit}: each rank gets a fresh interpreter, and {so}"
    if not culprit or spec.preload != "auto":
        return f"{said} [P403]"
    package = culprit.partition(".")[0]
    leave_out(package, unfit.removeprefix(f"importing {culprit} "))
    return f"{said}; for a day, runs leave out {package} and what needs it [P403]"


def _changed(file: str) -> int:
    try:
        return os.stat(file).st_mtime_ns
    except OSError:
        return 0
