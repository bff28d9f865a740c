"""What belongs to one process, made anew in a rank: capturing, temporary directories, measuring."""

from __future__ import annotations

import os
import sys
from collections import Counter
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from _pytest.tmpdir import TempPathFactory

from procession.pytest.stackframes import without_runner

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_random_state: Any = None  # in pytest's process, and so in all forks
_kept: list[Any] = []  # objects of the process that this is a fork of: they must not be destroyed


def remember_random() -> None:
    """Note how `random` stands when the tests are collected: in pytest's process."""
    global _random_state
    random = sys.modules.get("random")
    _random_state = None if random is None else random.getstate()


def process(config: Any, files: str, rank: int) -> None:
    """Make the process of a rank its own. files: where captured output goes."""
    if _random_state is not None:  # each fork gets another seed by Python itself
        sys.modules["random"].setstate(_random_state)
    _measure()
    capture(config, files, rank)


def captured(files: str, rank: int) -> list[tuple[str, str]]:
    """Read what a rank had written that its report does not have. files: as for `capture`."""
    found: list[tuple[str, str]] = []
    for stream in ("out", "err"):
        with suppress(OSError), open(os.path.join(files, f"{rank}.{stream}"), "rb") as f:
            if text := f.read().decode(errors="replace"):
                found.append((f"Captured std{stream}", without_runner(text)))
    return found


def capture(config: Any, files: str, rank: int) -> None:
    """Capture in files of this rank; others can read them if it dies."""
    module: Any = import_module("_pytest.capture")

    manager = config.pluginmanager.getplugin("capturemanager")
    if manager is None or manager._method == "no":
        return
    _kept.append((manager._global_capturing, manager._capture_fixture))
    manager._global_capturing = manager._capture_fixture = None
    names = iter(("out", "err"))

    def own_file(**_: Any) -> Any:
        return open(os.path.join(files, f"{rank}.{next(names)}"), "w+b", buffering=0)

    original = module.TemporaryFile
    module.TemporaryFile = own_file
    try:
        manager.start_global_capturing()
    finally:
        module.TemporaryFile = original


def silence(config: Any) -> None:
    """Let pytest's terminal write nowhere: pytest's own process writes the report.

    Nor may pytest-xdist's reporter talk to the session's controller: this process has inherited the
    pipe of a worker, who sends on what ranks report.
    """
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:
        nowhere = open(os.devnull, "w")  # noqa: SIM115 - to the end of the process
        _kept.append(nowhere)
        reporter._tw._file = nowhere
    for plugin in config.pluginmanager.get_plugins():
        if type(plugin).__name__ == "WorkerInteractor":
            config.pluginmanager.unregister(plugin)


def use_directory(config: Any, base: str) -> None:
    """Have temporary directories of a test below `base`, which its ranks have in common."""
    config._tmp_path_factory = _CommonDirectories(base)


def one_thread() -> None:
    """Have torch use one thread, as launchers give each of several ranks.

    A pool of threads that was used before a fork does not exist in it, and would be waited for.
    """
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)


class _CommonDirectories(TempPathFactory):  # pyright: ignore[reportGeneralTypeIssues]
    """Temporary directories of a test: the n-th one of a name is the same in all its ranks."""

    _basetemp = None  # of which the end of a session would remove something

    def __init__(self, base: str) -> None:
        self._base = Path(base)
        self._retention_policy = "all"  # pytest's process removes what is to be removed
        self._count: Counter[str] = Counter()

    def __repr__(self) -> str:
        return f"<temporary directories below {self._base}>"

    def getbasetemp(self) -> Path:
        """Give the directory of this test."""
        self._base.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self._base

    def mktemp(self, basename: str, numbered: bool = True) -> Path:
        """Give a directory below it, which another rank may have made by now."""
        basename = self._ensure_relative_to_basetemp(basename)
        number = self._count[basename]
        self._count[basename] += 1
        if not numbered and number:
            raise FileExistsError(basename)
        path = self.getbasetemp() / (f"{basename}{number}" if numbered else basename)
        path.mkdir(mode=0o700, exist_ok=True)
        return path


def _measure() -> None:
    """Have coverage go on in this process, with a data file of its own."""
    coverage: Any = sys.modules.get("coverage")
    before = coverage.Coverage.current() if coverage is not None else None
    if before is None:
        return
    before.stop()  # its data are those of the process that this is a fork of
    config = before.config
    mine = coverage.Coverage(
        data_file=config.data_file,
        data_suffix=True,
        branch=config.branch,
        source=config.source,
        config_file=before.config.config_file or False,
    )
    _kept.append(before)
    mine.start()
    measuring.append(mine)


def save_measures(go_on: bool) -> None:
    """Write down what coverage has seen in this process, beside what others have.

    go_on: and let it see more.
    """
    for each in measuring:
        each.stop()
        each.save()
        if go_on:
            each.start()


measuring: list[Any] = []
