"""How long a forkserver is kept for later runs, as people write it."""

from __future__ import annotations

from procession.values.errors import SpecError

VARIABLE = "PROCESSION_WARM"
WARM_SECONDS = 600.0  # if nothing else is said
MOST_SECONDS = 1e9
_ON = ("1", "true", "yes", "on")
_OFF = ("", "0", "false", "no", "off")


def read_warm(text: str, where: str = "warm") -> float | None:
    """Read the seconds; 1 stands for on, 0 for off, which is None. Raises SpecError."""
    word = text.strip().lower()
    if word in _OFF:
        return None
    if word in _ON:
        return WARM_SECONDS
    try:
        return check_warm(float(word))
    except (ValueError, SpecError):
        raise SpecError(
            f"{where} must be seconds, more than 0, or on or off, not {text!r}"
        ) from None


def check_warm(warm: object) -> float | None:
    """Check what a caller gave: True, False, None or seconds. Raises SpecError."""
    if warm is None or warm is False:
        return None
    if warm is True:
        return WARM_SECONDS
    if not isinstance(warm, (int, float)) or not 0 < warm < MOST_SECONDS:
        raise SpecError(f"warm must be True, False, or seconds, more than 0, not {warm!r}")
    return float(warm)
