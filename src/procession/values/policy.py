"""Policies: small frozen values that say how a group logs, stops, restarts and hangs."""

from __future__ import annotations

import enum
import os
import signal as signals
from collections.abc import Collection, Mapping, Sequence

from procession.values.base import (
    Value,
    check_fields,
    is_count,
    is_natural,
    is_number,
    members,
    none_or,
)
from procession.values.errors import is_signal
from procession.values.ranks import by_rank

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal

ENDS_NOTHING = (signals.SIGSTOP, signals.SIGCONT, signals.SIGCHLD, signals.SIGWINCH, signals.SIGURG)
NEVER_AGAIN = 78  # EX_CONFIG of sysexits.h: something was found in an unconfigured state


class Std(enum.IntFlag):
    """Which of a rank's standard streams are meant; the values are torchrun's."""

    NONE = 0
    OUT = 1
    ERR = 2
    ALL = 3

    @classmethod
    def from_str(cls, text: str) -> Std | dict[int, Std]:
        """Read `"3"` (one value for all ranks) or `"0:3,1:0,12:2"` (by rank).

        Raises ValueError for anything else.
        """
        fault = ValueError(
            f"not a choice of streams: {text!r}; write 0 (none), 1 (stdout), 2 (stderr) or "
            "3 (both), or such a value by rank, for example 0:3,1:0,12:2"
        )
        if text in _STD_DIGITS:
            return cls(int(text))
        chosen: dict[int, Std] = {}
        for part in text.split(","):
            rank, _, digit = part.partition(":")
            if not is_count(rank, 6) or digit not in _STD_DIGITS:
                raise fault
            chosen[int(rank)] = cls(int(digit))
        return chosen


_STD_DIGITS = ("0", "1", "2", "3")


class Logs(Value):
    """Where the output of the ranks goes.

    dir: the directory in which a run creates its own: `<dir>/<run>/attempt_0/<local rank>/` with
        `stdout.log`, `stderr.log` and `error.json`, next to `run.json` and `events.jsonl`. It is
        created if missing. None: no files, unless `redirect` or `tee` need some; these then go to
        a new directory in the temporary directory.
    redirect: streams to write to files only; one value, or a mapping by rank.
    tee: streams to write to files and to the console.
    prefix: the text before each line on the console, a template with `{rank}`, `{local_rank}`,
        `{width}`, `{name}`, `{node}` (its rank) and `{host}` (its name). `""` or None: no prefix;
        a stream that is neither redirected nor teed is then the stream of the launcher. `"auto"`:
        `"[{rank}] "`, or no prefix in a group of one rank.
    ranks: ranks whose output appears on the console. The output of others goes to their files, or
        is dropped. None: all ranks.
    all_output: False: after a failure or during a stop, do not print what the other ranks write,
        nor tracebacks that the report has; count them instead. Files have all output.
    fold: print equal lines of several ranks once, and one progress bar for all. "numbers": also
        fold lines that differ only in numbers. None: on a terminal only. Needs a prefix with
        `{rank}` and without `{local_rank}`.
    duplicate_stdout, duplicate_stderr: texts. Teed lines that contain one of them are also written
        to `attempt_0/filtered_stdout.log` or `filtered_stderr.log`.
    """

    dir: str | os.PathLike[str] | None = None
    redirect: Std | Mapping[int, Std] = Std.NONE
    tee: Std | Mapping[int, Std] = Std.NONE
    prefix: str | None = "auto"
    ranks: Collection[int] | None = None
    all_output: bool = True
    fold: bool | Literal["numbers"] | None = None
    duplicate_stdout: Sequence[str] = ()
    duplicate_stderr: Sequence[str] = ()

    def route(self, nproc: int) -> list[tuple[Route, Route]]:
        """Give the route of stdout and of stderr for each rank. Raises ValueError."""
        redirect = by_rank(self.redirect, nproc, "redirect", Std.NONE)
        tee = by_rank(self.tee, nproc, "tee", Std.NONE)
        prefixed = self.template(nproc) is not None
        shown = range(nproc) if self.ranks is None else self.ranks

        def route(rank: int, bit: Std) -> Route:
            in_file = bool((redirect[rank] | tee[rank]) & bit)
            if in_file:
                return Route.TEE if tee[rank] & bit and rank in shown else Route.FILE
            if rank not in shown:
                return Route.DROP
            return Route.PREFIX if prefixed else Route.INHERIT

        return [(route(r, Std.OUT), route(r, Std.ERR)) for r in range(nproc)]

    def template(self, nproc: int) -> str | None:
        """Give the template of the prefix that a group of `nproc` ranks uses, None for none."""
        if self.prefix == "auto":
            return "[{rank}] " if nproc > 1 else None
        return self.prefix or None

    def names_several(self, nproc: int) -> bool:
        """Whether the prefix can name several ranks: it has `{rank}`, and no `{local_rank}`."""
        template = self.template(nproc) or ""
        try:
            named = template.format(rank="0-1", local_rank="", width=1, name="", node=0, host="")
        except ValueError:  # it wants a number
            return False
        return "0-1" in named and "{local_rank" not in template

    def check(self, nproc: int) -> None:
        """Raise ValueError if this cannot be done for a group of `nproc` ranks."""
        check_fields(
            self,
            "",
            ("dir", none_or(lambda given: isinstance(given, (str, os.PathLike))), "a path"),
            ("prefix", none_or(lambda given: isinstance(given, str)), "a template or None"),
            ("duplicate_stdout duplicate_stderr", members(str, list, tuple), "a list of texts"),
            ("ranks", none_or(members(int, Collection)), "a collection of ranks or None"),
        )
        for what in ("redirect", "tee"):
            for chosen in by_rank(getattr(self, what), nproc, what, Std.NONE):
                if chosen not in (0, 1, 2, 3):
                    raise ValueError(f"{what} must be a Std, or a mapping by rank, not {chosen!r}")
        by_rank(dict.fromkeys(self.ranks or (), True) or True, nproc, "ranks", False)
        template = self.template(nproc)
        if template is not None:
            try:
                template.format(rank=0, local_rank=0, width=1, name="", node=0, host="")
            except (LookupError, TypeError, AttributeError, ValueError) as e:
                raise ValueError(
                    f"prefix: {template!r} is not a template of {{rank}}, {{local_rank}}, "
                    f"{{width}}, {{name}}, {{node}} and {{host}} ({type(e).__name__}: {e})"
                ) from None
        if self.dir is not None:
            path = os.fspath(self.dir)
            while path and not os.path.lexists(path):
                path = os.path.dirname(path)
            if path and not os.path.isdir(path):
                raise ValueError(f"log directory: {path!r} is not a directory")


class Route(enum.Enum):
    """The way of one stream of one rank."""

    INHERIT = "the launcher's own stream"
    PREFIX = "through a pipe, with a prefix, to the console"
    FILE = "to its file"
    TEE = "to its file, and from there with a prefix to the console"
    DROP = "nowhere"


class Stop(Value):
    """How a group is stopped: the stop signal to all processes, a grace period, then SIGKILL.

    signal: the stop signal.
    grace: seconds from the stop signal to SIGKILL, for the whole group.
    patience: seconds that the other ranks have after a failure to exit by themselves, before the
        stop signal. None: until `stop` or `kill`.
    reap: seconds that processes may take to exit after SIGKILL, before they are reported as lost.
        A process in uninterruptible sleep cannot be killed.
    notice: seconds before the stop signal during which `procession.stopping` is true, if all ranks
        are working at the time of the stop.
    linger: seconds that a rank with a known outcome may take to exit when the group stops, before
        it gets the stop signal, too. None: the whole grace period, without a stop signal, so that
        its exit handlers can finish.
    """

    signal: signals.Signals | int = signals.SIGTERM
    grace: float = 30.0
    patience: float | None = 0.0
    reap: float = 10.0
    linger: float | None = None
    notice: float = 0.0

    def check(self, _nproc: int = 1) -> None:
        """Raise ValueError for a signal that ends nothing or a time that is not one."""
        check_fields(
            self,
            "stop: ",
            ("signal", _ends_programs, "a signal that ends a program"),
            ("grace reap notice", is_number, "seconds, 0 or more"),
            ("patience linger", none_or(is_number), "seconds, 0 or more"),
        )


class StopRequest(Value):
    """How somebody wants a running group to be ended.

    kill: by SIGKILL, at once. stacks: its end is to say where its ranks were. signal, grace,
    notice: instead of those of its `Stop`; None: as that has them.
    """

    kill: bool = False
    stacks: bool = False
    signal: int | None = None
    grace: float | None = None
    notice: float | None = None

    @property
    def changes(self) -> dict[str, Any]:
        """What is given instead of the fields of a `Stop`, by their names."""
        wished = self.signal, self.grace, self.notice
        named = zip(("signal", "grace", "notice"), wished, strict=True)
        return {name: value for name, value in named if value is not None}


class Restart(Value):
    """When a failed group is restarted, with new processes.

    max: the number of restarts, within `window` if that is set.
    backoff: seconds to wait before the first restart. Each further wait is twice as long, until an
        attempt was useful.
    longest: the longest wait in seconds.
    jitter: a fraction. Each wait is made longer or shorter by up to this fraction at random.
    window: count only restarts of the last `window` seconds. None: count all restarts.
    min_uptime: seconds that all ranks must run for an attempt to be useful. After two failures at
        the same location before that, the group is not restarted. 0: every attempt is useful.
    scope: "group" restarts all ranks; "rank" restarts only the failed rank.
    never: exit codes after which a rank is not restarted.
    node_losses: the number of restarts after lost nodes, in addition to `max`. None: a lost node
        counts as a failure.
    """

    max: int = 0
    backoff: float = 0.0
    longest: float = 300.0
    jitter: float = 0.1
    window: float | None = None
    min_uptime: float = 0.0
    scope: Literal["group", "rank"] = "group"
    never: Collection[int] = (NEVER_AGAIN,)
    node_losses: int | None = None

    @property
    def single(self) -> bool:
        """Whether ranks start again one by one."""
        return self.scope == "rank" and self.max > 0

    def check(self, _nproc: int = 1) -> None:
        """Raise ValueError for what is no count, no time, no scope or no exit code."""
        check_fields(
            self,
            "restart: ",
            ("max", is_natural, "a count, 0 or more"),
            ("node_losses", none_or(is_natural), "a count, 0 or more"),
            ("backoff longest min_uptime", is_number, "a number, 0 or more"),
            ("window", none_or(is_number), "a number, 0 or more"),
            ("jitter", lambda given: is_number(given) and given <= 1, "a fraction, 0 to 1"),
            ("scope", ("group", "rank").__contains__, '"group" or "rank"'),
            ("never", _are_exit_codes, "a collection of exit codes, 1 to 255"),
        )


class Hang(Value):
    """When a group has hung, which is a failure.

    timeout: seconds without a `procession.beat()` of a rank, counted from its first one. If no rank
        ever beats: seconds in which no rank writes or moves. None: no limit.
    silence: seconds without output of any rank, counted from the start of all ranks. Only output
        with a prefix or in files counts. None: no limit.
    start: seconds that the ranks have to reach their program.
    stacks: collect the stacks of the other ranks after a failure, before they are stopped. This
        takes 150 ms at most, and works for Python ranks.
    """

    timeout: float | None = None
    silence: float | None = None
    start: float = 300.0
    stacks: bool = True

    def check(self, _nproc: int = 1) -> None:
        """Raise ValueError for a time that is not one."""
        check_fields(
            self,
            "hang: ",
            ("start", _is_positive, "seconds, more than 0"),
            ("timeout silence", none_or(_is_positive), "seconds, more than 0"),
        )


def _is_positive(given: Any) -> bool:
    return is_number(given) and given > 0


def _ends_programs(given: Any) -> bool:
    return isinstance(given, int) and is_signal(given) and given not in ENDS_NOTHING


def _are_exit_codes(given: Any) -> bool:
    return members(int, Collection)(given) and all(0 < code < 256 for code in given)
