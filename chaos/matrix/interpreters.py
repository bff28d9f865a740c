"""Other Pythons: where there are some, and what a check needs in them."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sys
from pathlib import Path

# What procession cannot do without; all are pure Python. Some are needed by one version only.
NEEDED = ("cloudpickle", "tblib", "tomli")
WHERE = "MATRIX_PYTHONS"  # further directories with interpreters in their bin/, as in PATH


def find(version: str, free_threaded: bool = False) -> str:
    """Give the path of an interpreter of a version, such as 3.12; "" if there is none."""
    name = f"python{version}{'t' if free_threaded else ''}"
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    places = [Path(each) / "bin" for each in os.environ.get(WHERE, "").split(":") if each]
    places += [each / "bin" for each in sorted(pyenv.glob(f"{version}*"), reverse=True)]
    found = [str(place / name) for place in places]
    found += [shutil.which(name) or ""]
    for path in found:
        if path and os.access(path, os.X_OK) and _runs(path, version, free_threaded):
            return path
    return ""


def _runs(path: str, version: str, free_threaded: bool) -> bool:
    """Ask an interpreter itself: a name may be a shim that finds none."""
    code = "import sys, sysconfig; print(*sys.version_info[:2], sep='.'); "
    code += "print(int(sysconfig.get_config_var('Py_GIL_DISABLED') or 0))"
    done = subprocess.run([path, "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.split() == [version, str(int(free_threaded))]


def copy_needed(target: Path) -> None:
    """Copy what procession needs from this interpreter's packages."""
    for name in NEEDED:
        try:
            files = importlib.metadata.files(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        for each in files:
            if each.suffix != ".pyc" and ".." not in each.parts:
                copy = target / each
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(each.locate(), copy)


def too_old(path: str) -> str:
    """Say why an interpreter cannot run procession, "" if it can."""
    code = "import sys; print(sys.version_info >= (3, 10))"
    try:
        done = subprocess.run([path, "-c", code], capture_output=True, text=True, check=False)
    except OSError as e:
        return f"{path}: {e.strerror}"
    return "" if done.stdout.strip() == "True" else f"{path} is older than Python 3.10"


def for_others() -> str:
    """Give an interpreter that every user may run; "" if there is none."""
    for path in (os.path.realpath(sys.executable), "/usr/bin/python3"):
        real = Path(path).resolve()
        ways = (real, *real.parents)
        if not too_old(path) and all(each.stat().st_mode & 0o001 for each in ways):
            return path
    return ""


def lacks_for_others() -> str:
    """Say why another user has no interpreter, "" if it has one."""
    return "" if for_others() else "no Python here may be run by another user"
