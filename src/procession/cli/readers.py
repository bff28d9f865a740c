"""How the texts of options become values. Each reader raises SpecError for what it cannot read.

A reader takes the text, and the name of the option as it was written, for the message.
"""

from __future__ import annotations

import signal
from importlib import import_module

from procession.values.base import is_count
from procession.values.errors import SpecError
from procession.values.exit import is_signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    from procession.cli.words import Reader

MOST_SECONDS = 1e9
INF = float("inf")
LEAST = 5e-324  # the smallest number above 0
NOT_TO_BE_HANDLED = (signal.SIGKILL, signal.SIGSTOP)


def is_number(text: str) -> bool:
    """Tell whether a text is a count of at most six digits."""
    return is_count(text, 6)


def seconds(what: str, least: float, most: float = MOST_SECONDS) -> Reader:
    """Make a reader of seconds, from `least` to below `most`. what: says so in a refusal."""

    def read(text: str, where: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not least <= value < most:
            raise SpecError(f"{where} must be {what}, not {text!r}")
        return value

    return read


def count(what: str, least: int, most: int = 999_999) -> Reader:
    """Make a reader of numbers from `least` to `most`. what: says in a refusal what it must be."""

    def read(text: str, where: str) -> int:
        if not (is_count(text, 10) and least <= int(text) <= most):
            raise SpecError(f"{where} must be {what}, not {text!r}")
        return int(text)

    return read


def choice(*words: str) -> Reader:
    """Make a reader of one of these words."""
    what = " or ".join(words) if len(words) == 2 else f"one of {', '.join(words)}"

    def read(text: str, where: str) -> str:
        if text not in words:
            raise SpecError(f"{where} must be {what}, not {text!r}")
        return text

    return read


def whole_number(what: str) -> Reader:
    """Make a reader of whole numbers that may be below zero."""

    def read(text: str, where: str) -> int:
        if not is_number(text.removeprefix("-")):
            raise SpecError(f"{where} must be {what}, not {text!r}")
        return int(text)

    return read


ANY_SECONDS = seconds("seconds", -INF, INF)
SECONDS = seconds("seconds, 0 or more", 0)
TIME_LIMIT = seconds("seconds, more than 0", LEAST)
COUNT = count("a count, 0 or more", 0)
COUNT_FROM_1 = count("a count of 1 or more", 1)
NUMBER = count("a number", 0, 10**10)


def size(text: str, where: str) -> str:
    """Read a size of memory; gives the text, which is shown as it was written."""
    from procession.values.placement import Placement

    try:
        Placement(memory_limit=text).check(1)
    except ValueError as e:
        raise SpecError(f"{where}: {str(e).partition(': ')[2]}") from None
    return text


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


def numbers(what: str) -> Reader:
    """Make a reader of numbers with commas between them. what: says so in a refusal."""

    def read(text: str, where: str) -> tuple[int, ...]:
        words = text.split(",")
        if not all(map(is_number, words)):
            raise SpecError(f"{where} must be {what}, not {text!r}")
        return tuple(map(int, words))

    return read


EXIT_CODES = numbers("exit codes, such as 78,3")
DESCRIPTORS = numbers("numbers of descriptors, such as 8,9")


def signals(text: str, where: str) -> tuple[int, ...]:
    """Read names of signals with commas between them."""
    found: set[int] = set()
    for word in text.split(","):
        name = word.strip()
        number = getattr(signal, name, None) if name.startswith("SIG") else None
        if not isinstance(number, signal.Signals):
            raise _no_signal(name, where)
        if number in NOT_TO_BE_HANDLED:
            raise SpecError(f"{where}: no process can handle {name}")
        found.add(int(number))
    return tuple(sorted(found))


def any_signal(text: str, where: str) -> int:
    """Read a signal: its number, or its name with or without SIG."""
    if is_count(text, 3) and is_signal(int(text)):
        return int(text)
    name = text.upper() if text.upper().startswith("SIG") else f"SIG{text.upper()}"
    number = getattr(signal, name, None)
    if not isinstance(number, signal.Signals):
        raise _no_signal(text, where, name)
    return int(number)


def _no_signal(text: str, where: str, name: str = "") -> SpecError:
    """Make the refusal of a text that names no signal. name: what it was taken for."""
    from procession.cli.words import near

    meant = near((name or text).upper(), [each.name for each in signal.Signals])
    hint = f"; did you mean {meant}?" if meant else ""
    return SpecError(f"{where}: there is no signal {text!r}{hint}")


def ending_signals(text: str, where: str) -> tuple[int, ...]:
    """Read the signals that end the group; SIGINT always does."""
    return tuple(sorted({int(signal.SIGINT), *signals(text, where)}))


def start_method(text: str, where: str) -> str:
    """Read how Python ranks come to be.

    Programs cannot be forks of this process, which has not imported them: "fork" means those of
    the forkserver.
    """
    from procession.values.spec import START_METHODS

    read = choice(*START_METHODS)
    return "forkserver" if read(text, where) == "fork" else text


def modules(text: str, where: str) -> Literal["auto"] | list[str] | None:
    """Read the names of modules to preload, or none, or auto."""
    if text == "auto":
        return "auto"
    if text == "none":
        return None
    names = text.split(",")
    for name in names:
        if not all(part.isidentifier() for part in name.split(".")):
            raise SpecError(f"{where} must be names of modules, none or auto, not {name!r}")
    return names


def elsewhere(module: str, name: str) -> Reader:
    """Make a reader of what another module reads, which is imported only then."""

    def read(text: str, where: str) -> object:
        return getattr(import_module(module), name)(text, where)

    return read


PREEMPTION = elsewhere("procession.cli.preemption", "read_preemption")
SHARED = elsewhere("procession.values.shared", "read_shared")
WARM = elsewhere("procession.values.warm", "read_warm")


def encryption(text: str, where: str) -> str:
    """Read whether links to machines must be encrypted."""
    from procession.engines.tunnel import check

    try:
        check(text)
    except ValueError as e:
        raise SpecError(f"{where} {e}") from None
    return text


def texts(text: str, _where: str) -> tuple[str, ...]:
    """Read a list with commas between its texts, and ,, for a comma."""
    if not text:
        return ()
    return tuple(part.replace("\0", ",") for part in text.replace(",,", "\0").split(","))
