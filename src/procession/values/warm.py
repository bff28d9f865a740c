"""How long an agent is kept for later runs, as people write it."""

from __future__ import annotations

from procession.values.errors import SpecError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

VARIABLE = "PROCESSION_WARM"
WARM_SECONDS = 600.0  # if nothing else is said
MOST_SECONDS = 1e9
_ON = (True, "1", "true", "yes", "on")
_OFF = (None, False, "", "0", "false", "no", "off")


def read_warm(given: Any, where: str = "warm") -> float | None:
    """Read the seconds, of a value or a text; 1 stands for on, 0 for off, which is None.

    Raises SpecError.
    """
    word = given.strip().lower() if isinstance(given, str) else given
    if word in _OFF:
        return None
    if word in _ON:
        return WARM_SECONDS
    try:
        seconds = float(word)
    except (TypeError, ValueError):
        seconds = 0.0
    if not 0 < seconds < MOST_SECONDS:
        raise SpecError(f"{where} must be seconds, more than 0, or on or off, not {given!r}")
    return seconds
