"""A run's files: torch's layout of logs by attempt and rank, `run.json` and `events.jsonl`.

    <dir>/<name>_<random>/run.json                        what was asked
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
import stat
import sys
from collections.abc import Mapping, Sequence

from procession.policy import Logs, Route
from procession.system.identity import own_mark
from procession.typed import cast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, BinaryIO

SECRET_WORDS = ("KEY", "TOKEN", "SECRET", "PASSW", "CREDENTIAL", "PRIVATE")
LOG_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW


def masked(env: Mapping[str, str | None]) -> dict[str, str | None]:
    """Hide the values of variables whose names look like secrets."""
    return {
        name: "***" if value and any(w in name.upper() for w in SECRET_WORDS) else value
        for name, value in env.items()
    }


def masked_words(words: Sequence[str]) -> list[str]:
    """Hide what looks like a secret on a command line: `--api-key=X` and `--api-key X`."""
    shown: list[str] = []
    secret = False
    for word in words:
        name, equals, _ = word.partition("=")
        is_option = name.lstrip("'\"").startswith("-")
        names_secret = is_option and any(w in name.upper() for w in SECRET_WORDS)
        if secret and not is_option:
            word = "***"  # noqa: PLW2901
        elif names_secret and equals:
            word = f"{name}=***"  # noqa: PLW2901
        shown.append(word)
        secret = names_secret and not equals
    return shown


class RunDir:
    """The directory of one run; made at once, with `OSError` if it cannot be.

    place: its path, where somebody else has named it, and other attempts may have used it before;
    attempt: then, the number of the group's first one.
    """

    def __init__(
        self, logs: Logs, nproc: int, name: str, place: str = "", attempt: int = 0
    ) -> None:
        routes = logs.route(nproc)
        files = any(r in (Route.FILE, Route.TEE) for pair in routes for r in pair)
        self.kept = logs.dir is not None or files
        self.fault = ""
        self._events = -1
        self._made = False
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
        else:  # made when the forkserver has been told of it, and will remove it if we cannot
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
        """Give the path of a rank's `stdout` or `stderr`."""
        return os.path.join(self.rank_dir(attempt, rank), f"{stream}.log")

    def filtered_file(self, attempt: int, stream: str) -> str:
        """Give the path of the copies of lines that some texts pick out, of all ranks."""
        return os.path.join(self._attempt_dir(attempt), f"filtered_{stream}.log")

    def open_log(self, attempt: int, rank: int, stream: str) -> int:
        """Open that file for the rank. Raises OSError."""
        return os.open(self.log_file(attempt, rank, stream), LOG_FLAGS, 0o600)

    def write_run(self, asked: Mapping[str, Any]) -> None:
        """Write `run.json`."""
        if not self.kept:
            return
        import json

        try:
            fd = os.open(os.path.join(self.path, "run.json"), LOG_FLAGS, 0o600)
            with os.fdopen(fd, "w") as f:
                json.dump(asked, f, indent=2, default=repr)
                f.write("\n")
        except OSError as e:
            self._note(e)

    def write_event(self, event: Mapping[str, Any]) -> None:
        """Append an event to `events.jsonl`."""
        if self._events < 0:
            return
        import json

        try:
            os.write(self._events, json.dumps(event).encode() + b"\n")
        except OSError as e:
            self._note(e)

    def write_stacks(self, attempt: int, text: str) -> str:
        """Write where ranks were when an attempt failed; gives the path, "" if it is not whole."""
        path = os.path.join(self._attempt_dir(attempt), "stacks.txt")
        try:
            fd = os.open(path, LOG_FLAGS, 0o600)
        except OSError as e:
            self._note(e)
            return ""
        try:
            with os.fdopen(fd, "wb") as f:
                f.write(text.encode(errors="replace"))
        except OSError as e:
            self._note(e)
            os.unlink(path)
            return ""
        return path

    def write_end(self, result: Mapping[str, Any], report: str) -> None:
        """Write `report.txt` and `result.json`, each whole or not at all, the latter last."""
        if not self.kept:
            return
        import json

        texts = {"report.txt": report, "result.json": json.dumps(result, indent=2, default=repr)}
        for name, text in texts.items():
            path = os.path.join(self.path, name)
            try:
                fd = os.open(f"{path}.part", LOG_FLAGS, 0o600)
                with os.fdopen(fd, "w", errors="backslashreplace") as f:
                    f.write(f"{text}\n")
                os.rename(f"{path}.part", path)
            except OSError as e:
                self._note(e)

    def _note(self, e: OSError) -> None:
        if not self.fault:
            self.fault = f"cannot write to the run's directory {self.path}: {e.strerror}"

    def close(self) -> None:
        """Close its files; a scratch directory is removed."""
        if self._events >= 0:
            os.close(self._events)
            self._events = -1
        if self._made:
            _remove(self.path)


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

    return tempfile.gettempdir()


def _new_directory(where: str, name: str) -> str:
    """Make a directory with a name that nobody can guess. Raises OSError."""
    path = os.path.join(where, f"{name}_{os.urandom(6).hex()}")
    os.mkdir(path, 0o700)
    return path


def _remove(directory: str) -> None:
    try:
        os.rmdir(directory)
    except OSError:  # there is something in it
        import shutil

        shutil.rmtree(directory, ignore_errors=True)


def disk_is_full(path: str) -> bool:
    """Tell whether the file system of `path` has no room for an ordinary user's block."""
    try:
        return os.statvfs(path).f_bavail == 0
    except OSError:
        return False


def read_error_file(path: str) -> str:
    """Read torch's error file: its traceback if it holds one, else its message.

    "" if there is no such file, or it is not one.
    """
    try:
        import json

        with open_regular(path) as f:
            data = json.loads(f.read(1 << 24))
    except (OSError, ValueError, RecursionError):
        return ""
    message = _mapping(data).get("message")
    if isinstance(message, dict):
        inner = _mapping(cast("object", message))
        callstack = _mapping(inner.get("extraInfo")).get("py_callstack")
        message = callstack if isinstance(callstack, str) else inner.get("message")
    return message if isinstance(message, str) else ""


def open_regular(path: str) -> BinaryIO:
    """Open a file that a rank may have replaced: never a link, and nothing that could wait.

    Raises OSError.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "not a regular file", path)
    return open(fd, "rb")


def _mapping(data: object) -> dict[str, Any]:
    return cast("dict[str, Any]", data) if isinstance(data, dict) else {}
