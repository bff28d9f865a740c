"""How a group lives and ends, as the command line says it."""

from __future__ import annotations

import os
import signal

from procession.cli.asked import TORCHS_TIMEOUT, Life
from procession.cli.parser import near
from procession.cli.parts import is_number
from procession.cli.preemption import read_preemption
from procession.cli.settings import Settings
from procession.errors import SpecError
from procession.policy import DEFAULT_STOP, NO_RESTART, Restart, Stop
from procession.spec import START_METHODS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

OF_RESTARTS = (
    "restart_backoff", "restart_window", "min_uptime", "restart_scope", "no_restart_codes",
)  # fmt: skip
MOST_SECONDS = 1e9
NOT_TO_BE_HANDLED = (signal.SIGKILL, signal.SIGSTOP)


def read_life(s: Settings) -> tuple[Life, list[str]]:
    """Read all of it; also what is to be said about it. Raises SpecError."""
    notes = check_without_effect(s)
    stop, signals = read_stop(s), read_signals(s)
    forward = read_names(s.text("forward"), s.where("forward")) if s.said("forward") else ()
    notices = read_preemption(s.text("preempt"), s.where("preempt")) if s.said("preempt") else {}
    taken = [signal.Signals(n).name for n in forward if n in notices or n == signal.SIGINT]
    if taken:
        raise SpecError(f"{s.where('forward')}: {taken[0]} ends the group, and is not forwarded")
    life = Life(
        stop=stop,
        restart=read_restart(s),
        signals=tuple(n for n in signals if n not in forward),
        start_method=read_start_method(s),
        forward=forward,
        notices=notices,
    )
    return life, notes


def read_stop(s: Settings) -> Stop:
    """Read how long ranks may take to end. Raises SpecError."""
    text, where = s.text("shutdown_timeout"), s.where("shutdown_timeout")
    if not s.said("shutdown_timeout") and not s.on_command_line("shutdown_timeout"):
        if not os.environ.get(TORCHS_TIMEOUT):
            return DEFAULT_STOP
        text, where = os.environ[TORCHS_TIMEOUT], TORCHS_TIMEOUT
    try:
        stop = Stop(grace=float(text))
        stop.check()
    except ValueError:
        raise SpecError(f"{where} must be seconds, 0 or more, not {text!r}") from None
    return stop


def read_restart(s: Settings) -> Restart:
    """Read how many times a failed group starts again, and when. Raises SpecError."""
    text = s.text("max_restarts")
    if not is_number(text):
        raise SpecError(f"{s.where('max_restarts')} must be a count, 0 or more, not {text!r}")
    losses = s.text("max_node_losses") or "0"
    if not is_number(losses):
        raise SpecError(f"{s.where('max_node_losses')} must be a count, 0 or more, not {losses!r}")
    if not int(text):
        for name in OF_RESTARTS:
            if s.on_command_line(name):
                raise SpecError(f"{s.where(name)} needs --max-restarts, which is 0")
        return Restart(node_losses=int(losses)) if int(losses) else NO_RESTART
    given: dict[str, Any] = {"max": int(text), "node_losses": int(losses)}
    if s.said("restart_backoff"):
        first, _, most = s.text("restart_backoff").partition(":")
        given["backoff"] = _seconds(first, s.where("restart_backoff"))
        if most:
            given["longest"] = _seconds(most, s.where("restart_backoff"))
    for name, field in (("restart_window", "window"), ("min_uptime", "min_uptime")):
        if s.said(name):
            given[field] = _seconds(s.text(name), s.where(name))
    if s.said("restart_scope"):
        given["scope"] = s.text("restart_scope")
    if s.said("no_restart_codes"):
        codes = s.text("no_restart_codes").split(",")
        if not all(is_number(code) for code in codes):
            raise SpecError(
                f"{s.where('no_restart_codes')} must be exit codes, such as 78,3, "
                f"not {s.text('no_restart_codes')!r}"
            )
        given["never"] = tuple(map(int, codes))
    restart = Restart(**given)
    try:
        restart.check()
    except ValueError as e:
        raise SpecError(str(e)) from None
    return restart


def _seconds(text: str, where: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < MOST_SECONDS:
        raise SpecError(f"{where} must be seconds, 0 or more, not {text!r}")
    return seconds


def read_signals(s: Settings) -> tuple[int, ...]:
    """Read which signals end the group; SIGINT always does. Raises SpecError."""
    named = read_names(s.text("signals_to_handle"), s.where("signals_to_handle"))
    return tuple(sorted({int(signal.SIGINT), *named}))


def read_names(text: str, where: str) -> tuple[int, ...]:
    """Read names of signals with commas between them. Raises SpecError."""
    found: set[int] = set()
    for word in text.split(","):
        name = word.strip()
        number = getattr(signal, name, None) if name.startswith("SIG") else None
        if not isinstance(number, signal.Signals):
            meant = near(name.upper(), [each.name for each in signal.Signals])
            hint = f"; did you mean {meant}?" if meant else ""
            raise SpecError(f"{where}: there is no signal {name!r}{hint}")
        if number in NOT_TO_BE_HANDLED:
            raise SpecError(f"{where}: no process can handle {name}")
        found.add(int(number))
    return tuple(sorted(found))


def read_start_method(s: Settings) -> str:
    """Read how Python ranks come to be. Raises SpecError.

    Programs cannot be forks of this process, which has not imported them: "fork" means those of
    a small one.
    """
    text = s.text("start_method")
    if text not in START_METHODS:
        raise SpecError(
            f"{s.where('start_method')} must be one of {', '.join(START_METHODS)}, not {text!r}"
        )
    return "forkserver" if text == "fork" else text


def check_without_effect(s: Settings) -> list[str]:
    """Look at options of torchrun that have no effect; gives what is to be said of them."""
    interval = s.text("monitor_interval")
    if s.said("monitor_interval"):
        try:
            float(interval)
        except ValueError:
            where = s.where("monitor_interval")
            raise SpecError(f"{where} must be seconds, not {interval!r}") from None
    handler = s.text("event_log_handler")
    if handler not in ("", "null"):
        return [f"{s.where('event_log_handler')} has no effect: see events.jsonl in --log-dir"]
    return []


__all__ = ["read_life"]
