"""The runs of this user: the living ones by their sockets, the past ones by the index."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from typing import Any, cast

from procession.control.ask import (
    Connection,
    Dead,
    NotAnswered,
    RunEnded,
    made_at,
    remove,
    sockets,
)
from procession.control.index import past_runs
from procession.output.rankfiles import open_regular
from procession.output.rundir import run_of
from procession.system import origin, processes
from procession.system.identity import lives, pid_of
from procession.values.base import Value

PATIENCE = 2.0  # seconds for each launcher to answer, when runs are listed
SHOWN = 8  # runs that the message about an unknown one names


class Run(Value):
    """One run. id: what it is called by. name: the group's. directory: "" for none.

    state: of `Phase`; "SILENT" if it does not answer, "UNSEEN" if it cannot be asked, "AWAY" if
    its launcher is, or was, on another machine, "LOST" if its launcher was killed. launcher: pid,
    0 if it is unknown, or on another machine. host: the machine of its launcher, "" for this
    one. slurm_job: Slurm's number of the job in which its launcher runs, or "". began: seconds
    since 1970. socket: the name of its socket, "" if it has none. look: its own description.
    result: how it ended. cwd: where it was started.
    """

    id: str
    name: str
    state: str
    directory: str = ""
    launcher: int = 0
    host: str = ""
    slurm_job: str = ""
    began: float = 0.0
    socket: str = ""
    look: Mapping[str, Any] | None = None
    result: Mapping[str, Any] | None = None
    cwd: str = ""

    @property
    def runs(self) -> bool:
        """Whether its launcher is there."""
        return bool(self.socket) or self.state == "UNSEEN"

    @property
    def launchers(self) -> set[int]:
        """The processes of this machine that start its ranks: launchers, node processes."""
        nodes = self.look.get("agents", ()) if self.look is not None else ()
        here = {int(node["pid"]) for node in nodes if node["host"] == _here()}
        return here | ({self.launcher} if self.launcher else set())


class NotFound(Exception):
    """There is no such run, or more than one. The text is one line."""


def living() -> list[Run]:
    """Give the runs that can be asked, the oldest first; sockets of dead launchers are removed."""
    asked: list[tuple[str, Connection | None]] = []
    for name in sockets():
        if name.startswith("."):
            continue  # it gets its name just now, or is a template's
        try:
            connection = Connection(name, PATIENCE)
            asked.append((name, connection))
            connection.send("look")
        except Dead:
            remove(name)
        except RunEnded:
            continue
        except NotAnswered:
            asked.append((name, None))
    found: list[Run] = []
    for name, connection in asked:
        look: Any = None
        if connection is not None:
            with suppress(NotAnswered), closing(connection):
                look = connection.answer("look")
            if connection.end is not None:
                continue
        found.append(_silent(name, connection) if look is None else _living(name, look))
    return sorted(found, key=lambda run: run.began)


def _silent(name: str, connection: Connection | None) -> Run:
    """Describe a run that does not answer, by its files and by who listens at its socket."""
    launcher = 0 if connection is None else connection.peer
    directory = past_runs().get(name)
    run = _run(name, "", 0, {}, {}, began=made_at(name))
    if directory is not None:
        run = _of_files(name, directory)
    cwd = run.cwd or processes.directory_of(launcher)
    return run.__replace__(state="SILENT", launcher=launcher, socket=name, cwd=cwd)


def _living(name: str, look: Mapping[str, Any]) -> Run:
    more = {"directory": look["run_dir"], "began": look["began"], "socket": name, "look": look}
    return _run(name, look["state"], look["launcher"], look, look, **more)


def _run(
    name: str, state: str, launcher: int, about: Mapping[str, Any], origin: Mapping[str, Any],
    **more: Any,
) -> Run:  # fmt: skip
    """Make the record of a run. about: has its name. origin: see `system.origin`."""
    away = origin.get("host", "") not in ("", _here())
    return Run(
        id=name,
        name=about.get("name") or name.rpartition("_")[0] or name,
        state=state,
        launcher=0 if away else launcher,
        host=origin["host"] if away else "",
        slurm_job=origin.get("slurm_job", ""),
        cwd=origin.get("cwd", ""),
        **more,
    )


def _here() -> str:
    return os.uname().nodename


def ended(running: Sequence[Run]) -> list[Run]:
    """Give the other runs that have a directory, the oldest first. running: those to leave out."""
    known = {run.id for run in running}
    return [_of_files(run, path) for run, path in past_runs().items() if run not in known]


def _of_files(run: str, directory: str) -> Run:
    """Describe a run by what is in its directory."""
    asked = read_json(os.path.join(directory, "run.json")) or {}
    result = read_json(os.path.join(directory, "result.json"))
    mark, origin = asked.get("mark", ""), asked.get("origin", {})
    state = "LOST"
    if result is not None:
        state = str(result.get("state", ""))
    elif origin.get("host", "") not in ("", _here()):
        state = "AWAY"  # in a directory that machines share
    elif mark and lives(mark) is not False:
        state = "UNSEEN"
    try:
        began = os.stat(os.path.join(directory, "run.json")).st_mtime
    except OSError:
        began = 0.0
    more = {"directory": directory, "began": began, "result": result}
    return _run(run, state, pid_of(mark) if state == "UNSEEN" else 0, asked, origin, **more)


def read_json(path: str) -> dict[str, Any] | None:
    """Read an object from a file; None if there is none."""
    try:
        with open_regular(path) as f:
            found = json.loads(f.read())
    except (OSError, ValueError):
        return None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else None


def find_run(word: str) -> Run:
    """Find the run that a word of the command line means. Raises NotFound."""
    running = living()
    every = running + ended(running)
    if ("/" in word or os.path.isdir(word)) and word not in [run.name for run in every]:
        return _of_directory(word, running)
    return choose(word, every, origin.origin()["cwd"])


def choose(word: str, runs: Sequence[Run], cwd: str) -> Run:
    """Choose by an id, a name, its beginning, a launcher's pid, Slurm's number, or `last`.

    Living runs are preferred to past ones. `last` is the newest run that was started in the
    directory `cwd`, or may have been: where one that does not answer was started may be unknown.
    Raises NotFound.
    """
    there = f"; there is {_listed(runs, ', ')}" if runs else "; there is none at all"
    if word == "last":
        own = [
            run
            for run in runs
            if (run.cwd and run.cwd == cwd) or (run.state == "SILENT" and not run.cwd)
        ]
        if not own:
            raise NotFound(f"no run was started in this directory{there}")
        return max(own, key=lambda run: run.began)
    ways = (
        [run for run in runs if run.id == word],
        [r for r in runs if word.isdecimal() and word in (str(r.launcher), r.slurm_job)],
        [run for run in runs if run.name == word],
        [run for run in runs if run.id.startswith(word)],
    )
    for found in ways:
        alive = [run for run in found if run.runs]
        if len(alive or found) == 1:
            return (alive or found)[0]
        if found:
            raise NotFound(f"{word!r} fits several runs: {_listed(alive or found, ' or ')}")
    raise NotFound(f"there is no run {word!r}{there}")


def _listed(runs: Sequence[Run], between: str) -> str:
    newest = sorted(runs, key=lambda run: -run.began)
    more = f"{between}{len(newest) - SHOWN} more" if len(newest) > SHOWN else ""
    return between.join(run.id for run in newest[:SHOWN]) + more


def _of_directory(path: str, running: Sequence[Run]) -> Run:
    path = os.path.abspath(path)
    for run in running:
        if run.directory and os.path.realpath(run.directory) == os.path.realpath(path):
            return run
    asked = read_json(os.path.join(path, "run.json"))
    if asked is None:
        raise NotFound(f"{path} is not the directory of a run: it holds no run.json")
    return _of_files(asked.get("run") or run_of(path), path)


def connect(run: Run) -> closing[Connection]:
    """Connect to a run that has a socket, while a block runs. Raises NotAnswered."""
    return closing(Connection(run.socket))
