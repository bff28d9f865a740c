"""Packages that started something when they were imported: left out of later runs.

One file in the user's cache directory has them. A package counts until its file changes.
"""

from __future__ import annotations

import os
from typing import Any

from procession.system.directories import read_cached, write_cached
from procession.values.spec import Spec

CACHE, FILE = "preload", "started.json"
LARGEST = 64 << 10  # bytes


def left_out() -> dict[str, str]:
    """Give the packages that are left out, each with the reason."""
    text = read_cached(CACHE, FILE, LARGEST)
    if not text:
        return {}
    import json

    try:
        known: dict[str, Any] = json.loads(text)
        return {top: str(why) for top, (why, file, at) in known.items() if _changed(file) == at}
    except (ValueError, TypeError, AttributeError):
        return {}  # it is damaged


def leave_out(package: str, why: str) -> None:
    """Leave a package out of later runs. Where nothing can be written, nothing is kept."""
    import json
    from importlib.util import find_spec

    known: dict[str, Any] = {package: why, **left_out()}
    for name, reason in known.items():
        spec = find_spec(name)
        file = spec.origin or "" if spec is not None else ""
        known[name] = [reason, file, _changed(file)]
    write_cached(CACHE, FILE, json.dumps(known).encode())


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
    return f"{said}; later runs leave out {package} and what needs it [P403]"


def _changed(file: str) -> int:
    try:
        return os.stat(file).st_mtime_ns
    except OSError:
        return 0
