"""How a group lives and ends, as the command line says it."""

from __future__ import annotations

import os
import signal

from procession.cli.asked import TORCHS_TIMEOUT, Life
from procession.cli.parser import near
from procession.cli.parts import is_number
from procession.cli.settings import Settings
from procession.errors import SpecError
from procession.policy import DEFAULT_STOP, NO_RESTART, Restart, Stop
from procession.spec import START_METHODS

NOT_TO_BE_HANDLED = (signal.SIGKILL, signal.SIGSTOP)


def read_life(s: Settings) -> tuple[Life, list[str]]:
    """Read all of it; also what is to be said about it. Raises SpecError."""
    notes = check_without_effect(s)
    return Life(read_stop(s), read_restart(s), read_signals(s), read_start_method(s)), notes


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
    """Read how many times a failed group starts again. Raises SpecError."""
    text = s.text("max_restarts")
    if not is_number(text):
        raise SpecError(f"{s.where('max_restarts')} must be a count, 0 or more, not {text!r}")
    return Restart(max=int(text)) if int(text) else NO_RESTART


def read_signals(s: Settings) -> tuple[int, ...]:
    """Read which signals end the group; SIGINT always does. Raises SpecError."""
    found = {int(signal.SIGINT)}
    for word in s.text("signals_to_handle").split(","):
        name = word.strip()
        number = getattr(signal, name, None) if name.startswith("SIG") else None
        where = s.where("signals_to_handle")
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
