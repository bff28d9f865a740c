"""Intel: ZE_AFFINITY_MASK or ONEAPI_DEVICE_SELECTOR, and what oneCCL needs without MPI."""

from __future__ import annotations

from procession.devices.seat import Seat, Variables, is_number, numbered, read_devices
from procession.errors import SpecError

MASK, SELECTOR = "ZE_AFFINITY_MASK", "ONEAPI_DEVICE_SELECTOR"
BACKEND = "level_zero"
ALL = ("*", "gpu")


def environment(seat: Seat) -> Variables:
    """Give the rank one GPU, or one tile of it: its local rank becomes 0, but not for oneCCL."""
    selected = _selected(seat)
    variables: Variables = {}
    if selected is None:
        variables[MASK] = seat.device(MASK)
        if SELECTOR in seat.inherited:  # it names all that the mask leaves
            variables[SELECTOR] = f"{BACKEND}:0"
    else:
        device = seat.pick(SELECTOR, selected)
        masked = seat.devices(MASK)
        if masked is None:
            variables[SELECTOR] = f"{BACKEND}:{device}"
        else:
            variables |= {MASK: _behind(seat, masked, device), SELECTOR: f"{BACKEND}:0"}
    variables |= seat.defaults({"CCL_PROCESS_LAUNCHER": "none"})
    return variables | {
        "CCL_LOCAL_RANK": str(seat.local_rank),
        "CCL_LOCAL_SIZE": str(seat.local_world_size),
        "LOCAL_RANK": "0",
    }


def _selected(seat: Seat) -> list[str] | None:
    """Give the devices that the selector names; None where it names all of them."""
    text = seat.given(SELECTOR)
    if text is None:
        return None
    backend, colon, devices = text.partition(":")
    if backend.strip() == BACKEND and colon:
        if devices.strip() in ALL:
            return None
        words = read_devices(SELECTOR, devices)
        if all(is_number(w) for w in words):
            return words
    raise SpecError(
        f"{SELECTOR}={text!r} cannot be dealt out to ranks: write, for example, "
        f"{BACKEND}:0,1, or use {MASK}"
    )


def _behind(seat: Seat, masked: list[str], device: str) -> str:
    """Give the name, in the mask, of a device that the selector numbers among what it leaves."""
    (number,) = numbered(SELECTOR, seat.given(SELECTOR) or "", [device])
    if number >= len(masked):
        raise SpecError(
            f"{SELECTOR}={seat.given(SELECTOR)!r} names {number}, but "
            f"{MASK}={seat.given(MASK)!r} leaves {len(masked)}"
        )
    return masked[number]
