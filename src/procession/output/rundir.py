"""A run's files: torch's layout of logs by attempt and rank, `run.json` and `events.jsonl`.

    <dir>/<name>_<random>/run.json                        what was asked (in a job of Slurm:
                                                          <name>_slurm<job>[_<array task>]_<random>)
                            events.jsonl                 what happened, one object per event
                            report.txt, result.json      how it ended, in words and as data
                            console.log                  what the console of a detached run shows
                            attempt_<k>/<local rank>/stdout.log, stderr.log, error.json

Without a log directory there is only a scratch directory for error files, which goes with the run;
its name ends with `@` and the launcher's mark, by which one is known whose launcher was killed.
What the launcher itself writes here never stops a group: a full disk is noted once.
"""

from __future__ import annotations

import errno
import os
import sys
import threading
from collections.abc import Mapping

from procession.system.files import disk_is_full
from procession.system.identity import own_mark
from procession.values.policy import Logs, Route

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

IN_FILES = (Route.FILE, Route.TEE)
_FULL = "no space is left on the disk"
LOG_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
# For files of the launcher: a rank may have put a named pipe in their place, which nobody reads.
_OWN_FLAGS = LOG_FLAGS | os.O_NONBLOCK


class RunFiles:
    """The directory of one run; made at once, with `OSError` if it cannot be.

    place: its path, where the caller has chosen it; earlier attempts may have used it.
    attempt: then, the number of the group's first one.

    path: the run's directory. ranks_write: whether it has what ranks write. kept: whether its files
    stay when the run is over. writes: whether the launcher writes files of its own there. fault:
    what it could not write, "" if nothing.
    """

    path = ""
    kept = writes = True
    fault = ""
    _events = -1
    ranks_write = _made = _closed = False

    def __init__(
        self, logs: Logs, nproc: int, name: str, place: str = "", attempt: int = 0
    ) -> None:
        self._routes = logs.route(nproc)
        files = any(r in IN_FILES for pair in self._routes for r in pair)
        self.kept = self.writes = logs.dir is not None or files
        self.ranks_write = files
        self._writing = threading.Lock()  # of `_events`; its holder may wait for the disk
        self._first_attempt = attempt
        flags = LOG_FLAGS
        if place and self.kept:
            os.makedirs(place, mode=0o700, exist_ok=True)
            self.path = place
            flags = LOG_FLAGS & ~os.O_TRUNC
        elif logs.dir is not None:
            os.makedirs(logs.dir, exist_ok=True)
            base = os.path.abspath(logs.dir)
            self.path = _new_directory(base, name)
        elif self.kept:
            self.path = _new_directory(temporary_directory(), f"procession_{name}")
        else:  # made when the agent knows of it, which removes it if we cannot
            unique = f"procession_{name}_{os.urandom(6).hex()}@{own_mark()}"
            self.path = os.path.join(temporary_directory(), unique)
        if self.kept:
            try:
                self._events = os.open(os.path.join(self.path, "events.jsonl"), flags, 0o600)
            except BaseException:
                if self.path != place:
                    _remove(self.path)
                raise

    def rank_dir(self, attempt: int, rank: int) -> str:
        """Give the directory of a rank's files in an attempt."""
        return os.path.join(self._attempt_dir(attempt), str(rank))

    def _attempt_dir(self, attempt: int) -> str:
        return os.path.join(self.path, f"attempt_{self._first_attempt + attempt}")

    def make_rank_dir(self, attempt: int, rank: int) -> None:
        """Make that directory, if files are kept, else the scratch directory. Raises OSError."""
        if not self.kept:
            if not self._made:
                os.mkdir(self.path, 0o700)
                self._made = True
        else:
            path = self.rank_dir(attempt, rank)
            for each in (os.path.dirname(path), path):
                try:
                    os.mkdir(each, 0o700)
                except FileExistsError:
                    pass  # by another rank

    def error_file(self, attempt: int, rank: int) -> str:
        """Give the path of a rank's error file; its directory is there."""
        if self.kept:
            return os.path.join(self.rank_dir(attempt, rank), "error.json")
        return os.path.join(self.path, f"error_{attempt}_{rank}.json")

    def log_file(self, attempt: int, rank: int, stream: str) -> str:
        """Give the path of a rank's `stdout` or `stderr`, "" where it has no file."""
        if self._routes[rank][stream == "stderr"] not in IN_FILES:
            return ""
        return os.path.join(self.rank_dir(attempt, rank), f"{stream}.log")

    def log_files(self, attempt: int, rank: int) -> tuple[str, str]:
        """Give the paths of both."""
        return self.log_file(attempt, rank, "stdout"), self.log_file(attempt, rank, "stderr")

    def open_log(self, attempt: int, rank: int, stream: str) -> int:
        """Open that file for the rank, emptied. Raises OSError."""
        return os.open(self.log_file(attempt, rank, stream), LOG_FLAGS, 0o600)

    def filtered_file(self, attempt: int, stream: str) -> str:
        """Give the path of the copies of lines that some texts pick out, of all ranks."""
        return os.path.join(self._attempt_dir(attempt), f"filtered_{stream}.log")

    def write_run(self, asked: Mapping[str, Any]) -> None:
        """Write `run.json`: what was asked."""
        self._write_json("run.json", asked)

    def _write_json(self, name: str, data: Mapping[str, Any]) -> None:
        if self.writes:
            import json

            text = json.dumps(data, indent=2, default=repr)
            self._write(os.path.join(self.path, name), f"{text}\n")

    def _write(self, path: str, text: str) -> str:
        """Write a file, whole or not at all; gives its path, "" if that failed."""
        try:
            fd = os.open(f"{path}.part", _OWN_FLAGS, 0o600)
            with os.fdopen(fd, "w", errors="backslashreplace") as f:
                f.write(text)
            os.rename(f"{path}.part", path)
        except OSError as e:
            self._note(e)
            try:
                os.unlink(f"{path}.part")
            except OSError:
                pass  # it was not made
            return ""
        return path

    def write_event(self, event: Mapping[str, Any]) -> None:
        """Append what happened to `events.jsonl`; in any thread."""
        if not self.writes:
            return
        import json

        line = json.dumps(event).encode() + b"\n"
        with self._writing:
            if self._events < 0:
                return
            try:
                taken = os.write(self._events, line)
                if taken < len(line):  # no half line may stay, to which the next would be glued
                    os.ftruncate(self._events, os.lseek(self._events, 0, os.SEEK_END) - taken)
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            except OSError as e:
                self._note(e)
        if self._closed:
            self._close_events()

    def write_stacks(self, attempt: int, text: str) -> str:
        """Write where ranks were when an attempt failed; gives the path, "" if it is not whole."""
        if not self.writes:
            return ""
        return self._write(os.path.join(self._attempt_dir(attempt), "stacks.txt"), text)

    def write_end(self, result: Mapping[str, Any], report: str) -> None:
        """Write `report.txt` and `result.json`, each whole or not at all, the latter last."""
        if self.writes:
            self._write(os.path.join(self.path, "report.txt"), f"{report}\n")
            self._write_json("result.json", result)

    def check(self) -> None:
        """Note in `fault`, when ranks have ended, if their files may be cut off, or are gone."""
        if self.fault or not self.writes:
            return
        if not os.path.isdir(self.path):
            self.fault = (
                f"the run's directory {self.path} is gone, with what was written to it: was it "
                "removed while ranks ran? [P407]"
            )
        elif self.ranks_write and disk_is_full(self.path):
            self.fault = f"output in {self.path} may be incomplete: {_FULL} [P407]"

    def _note(self, e: OSError) -> None:
        if not self.fault:
            self.fault = f"cannot write to the run's directory {self.path}: {e.strerror} [P407]"

    def close(self) -> None:
        """Close its files; a scratch directory is removed."""
        self._closed = True
        if self.writes:
            self._close_events()
        self.remove_scratch()

    def remove_scratch(self) -> None:
        """Remove the scratch directory, if there is one."""
        if self._made:
            self._made = False
            _remove(self.path)

    def _close_events(self) -> None:
        """Close `events.jsonl`, unless a thread hangs in writing to it: it does so afterwards."""
        if self._writing.acquire(blocking=False):
            if self._events >= 0:
                os.close(self._events)
                self._events = -1
            self._writing.release()


def directory_name(name: str, env: Mapping[str, str]) -> str:
    """Give how the directory of a run of this name begins, and its id: with Slurm's ids, too.

    env: this process's variables.
    """
    kept = "".join(c if c.isalnum() or c in "-_." else "_" for c in name)
    kept = kept.strip("._")[:40] or "run"
    job, task = env.get("SLURM_ARRAY_JOB_ID"), env.get("SLURM_ARRAY_TASK_ID")
    ids = f"{job}_{task}" if job and task else env.get("SLURM_JOB_ID", "")
    return f"{kept}_slurm{ids}" if ids.replace("_", "").isdecimal() else kept


def run_of(path: str) -> str:
    """Give the id of the run to which a directory belongs."""
    return os.path.basename(path).removeprefix("procession_").partition("@")[0]


def temporary_directory() -> str:
    """Give what `tempfile.gettempdir` gives, in most cases without its import."""
    if "tempfile" not in sys.modules:
        directory = os.environ.get("TMPDIR") or "/tmp"  # noqa: S108 - only a new name in it is used
        try:
            os.rmdir(_new_directory(directory, "procession"))  # it has room, and lets us write
            return os.path.abspath(directory)
        except OSError:
            pass  # there are other places
    import tempfile

    try:
        return tempfile.gettempdir()
    except FileNotFoundError:
        text = "there is no temporary directory: set TMPDIR to one that this user may write to"
        raise FileNotFoundError(errno.ENOENT, text) from None


def _new_directory(where: str, name: str) -> str:
    """Make a directory with a name that cannot be guessed. Raises OSError."""
    path = os.path.join(where, f"{name}_{os.urandom(6).hex()}")
    os.mkdir(path, 0o700)
    return path


def _remove(directory: str) -> None:
    try:
        os.rmdir(directory)
    except FileNotFoundError:
        return
    except OSError:  # there is something in it
        try:
            import shutil
        except (OSError, ImportError):
            return  # there is no descriptor left; `procession clean` removes it

        shutil.rmtree(directory, ignore_errors=True)
