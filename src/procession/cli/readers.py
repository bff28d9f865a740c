"""How the texts of options become values. Each reader raises SpecError for what it cannot read.

A reader takes the text, and the name of the option as it was written, for the message.
"""

from __future__ import annotations

import signal

from procession.values.base import is_count
from procession.values.errors import SpecError, is_signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    from procession.cli.words import Reader

NOT_TO_BE_HANDLED = (signal.SIGKILL, signal.SIGSTOP)


def is_number(text: str) -> bool:
    """Tell whether a text is a count of at most six digits."""
    return is_count(text, 6)


# Of a field of a policy, the policy itself says what it may be; see `Settings.policy`.


def number(text: str, where: str) -> float:
    """Read a number."""
    try:
        return float(text)
    except ValueError:
        raise SpecError(f"{where} must be a number, not {text!r}") from None


def whole(text: str, where: str) -> int:
    """Read a whole number, which may be below zero."""
    if not is_number(text.removeprefix("-")):
        raise SpecError(f"{where} must be a whole number, not {text!r}")
    return int(text)


def count(text: str, where: str) -> int:
    """Read a number from 0 on."""
    if not is_count(text):
        raise SpecError(f"{where} must be a count, 0 or more, not {text!r}")
    return int(text)


def seconds(what: str, least: float, most: float = 1e9) -> Reader:
    """Make a reader of seconds, from `least` to below `most`. what: says so in a refusal."""

    def read(text: str, where: str) -> float:
        value = number(text, where)
        if not least <= value < most:
            raise SpecError(f"{where} must be {what}, not {text!r}")
        return value

    return read


SECONDS = seconds("seconds, 0 or more", 0)


def backoff(text: str, where: str) -> dict[str, object]:
    """Read SECONDS[:MOST]; gives fields of the policy for restarts."""
    first, _, most = text.partition(":")
    found = {"backoff": SECONDS(first, where)}
    if not most:
        return found
    found["longest"] = SECONDS(most, where)
    if float(most) < float(first):
        raise SpecError(f"{where}: the most, {most}, is less than the first wait, {first}")
    return found


def numbers(text: str, where: str) -> tuple[int, ...]:
    """Read numbers with commas between them."""
    words = text.split(",")
    if not all(map(is_number, words)):
        raise SpecError(f"{where} must be numbers, such as 78,3, not {text!r}")
    return tuple(map(int, words))


def any_signal(text: str, where: str) -> int:
    """Read a signal: its number, or its name with or without SIG."""
    if is_count(text, 3) and is_signal(int(text)):
        return int(text)
    name = text.upper() if text.upper().startswith("SIG") else f"SIG{text.upper()}"
    found = getattr(signal, name, None)
    if isinstance(found, signal.Signals):
        return int(found)
    from procession.cli.words import near

    meant = near(name, [each.name for each in signal.Signals])
    hint = f"; did you mean {meant}?" if meant else ""
    raise SpecError(f"{where}: there is no signal {text!r}{hint}")


def signals(text: str, where: str) -> tuple[int, ...]:
    """Read signals with commas between them."""
    found = {any_signal(word.strip(), where) for word in text.split(",")}
    for number in found.intersection(NOT_TO_BE_HANDLED):
        raise SpecError(f"{where}: no process can handle {signal.Signals(number).name}")
    return tuple(sorted(found))


def ending_signals(text: str, where: str) -> tuple[int, ...]:
    """Read the signals that end the group; SIGINT always does."""
    return tuple(sorted({int(signal.SIGINT), *signals(text, where)}))


def start_method(text: str, _where: str) -> str:
    """Read how Python ranks come to be.

    Programs cannot be forks of this process, which has not imported them: "fork" means those of
    the agent.
    """
    return "forkserver" if text == "fork" else text


def reading_rank(text: str, where: str) -> int | None:
    """Read the rank that has the standard input, or none."""
    return None if text == "none" else count(text, where)


def modules(text: str, _where: str) -> Literal["auto"] | list[str] | None:
    """Read the names of modules to preload, or none, or auto."""
    if text == "auto":
        return "auto"
    if text == "none":
        return None
    return text.split(",")


def elsewhere(module: str, name: str) -> Reader:
    """Make a reader of what another module reads, which is imported only then."""

    def read(text: str, where: str) -> object:
        from importlib import import_module  # it takes 2 ms, which every launch would pay

        return getattr(import_module(module), name)(text, where)

    return read


PREEMPTION = elsewhere("procession.cli.signals", "read_preemption")
SHARED = elsewhere("procession.values.shared", "read_shared")
WARM = elsewhere("procession.values.spec", "read_warm")


def debugpy_port(text: str, where: str) -> int:
    """Read the port at which the first rank waits for an editor."""
    from importlib.util import find_spec

    if not is_count(text) or not 1024 <= int(text) <= 65535:
        raise SpecError(f"{where} must be a port from 1024 to 65535, not {text!r}")
    if find_spec("debugpy") is None:
        raise SpecError(f"{where} needs debugpy: type pip install 'procession[debugpy]'")
    return int(text)


def folding(text: str, where: str) -> bool | str:
    """Read which lines of several ranks are shown as one."""
    if text == "numbers":
        return text
    if text not in ("lines", "1", "off", "0"):
        raise SpecError(f"{where} must be lines or numbers, not {text!r}")
    return text in ("lines", "1")


def texts(text: str, _where: str) -> tuple[str, ...]:
    """Read a list with commas between its texts, and ,, for a comma."""
    if not text:
        return ()
    return tuple(part.replace("\0", ",") for part in text.replace(",,", "\0").split(","))
