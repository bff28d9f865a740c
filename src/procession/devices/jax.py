"""JAX: the device of this process among the machine's, and where its processes meet.

JAX has no variables for the number of a process and their count: `procession.jax.initialize` says
them.
"""

from __future__ import annotations

from procession.devices.seat import Seat, Variables, numbered

NAME = "JAX_LOCAL_DEVICE_IDS"
LOOPBACK = ("127.0.0.1:", "localhost:", "[::1]:")


def environment(seat: Seat) -> Variables:
    """Give the rank one device, and keep JAX from swallowing the stop signal."""
    devices = seat.devices(NAME)
    if devices is not None:
        devices = [str(n) for n in numbered(NAME, seat.given(NAME) or "", devices)]
    values = {"JAX_ENABLE_PREEMPTION_SERVICE": "0"}
    if seat.endpoint:
        values["JAX_COORDINATOR_ADDRESS"] = seat.endpoint
        if seat.endpoint.startswith(LOOPBACK):  # else JAX listens on every interface
            values["JAX_COORDINATOR_BIND_ADDRESS"] = seat.endpoint
    return {NAME: seat.pick(NAME, devices), **seat.defaults(values)}
