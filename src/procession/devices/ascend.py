"""Huawei Ascend: ASCEND_RT_VISIBLE_DEVICES, numbers without spaces."""

from __future__ import annotations

from procession.devices.seat import Seat, Variables, numbered

NAME = "ASCEND_RT_VISIBLE_DEVICES"


def environment(seat: Seat) -> Variables:
    """Give the rank one NPU: its local rank becomes 0."""
    devices = seat.devices(NAME)
    if devices is not None:
        # The runtime reads the list only if it ascends; so ranks get them in that order.
        devices = [str(n) for n in sorted(numbered(NAME, seat.given(NAME) or "", devices))]
    return {NAME: seat.pick(NAME, devices), "LOCAL_RANK": "0"}
