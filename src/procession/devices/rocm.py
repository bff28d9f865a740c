"""AMD: HIP_VISIBLE_DEVICES or ROCR_VISIBLE_DEVICES, one of them only.

The two filter one after the other: what HIP's names are numbers among what ROCR's leaves. HIP reads
CUDA_VISIBLE_DEVICES where HIP_VISIBLE_DEVICES is not set.
"""

from __future__ import annotations

from procession.devices.seat import Seat, Variables, is_number
from procession.errors import SpecError

HIP, ROCR, CUDA = "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"


def environment(seat: Seat) -> Variables:
    """Give the rank one GPU, by one variable; the others are taken away. Its local rank is 0."""
    outer = seat.devices(ROCR)
    name = next((n for n in (HIP, CUDA) if n in seat.inherited), HIP)
    device = seat.device(name) if outer is None or name in seat.inherited else ""
    chosen = HIP
    if outer is not None:
        chosen = ROCR
        device = _through(seat, name, device, outer) if device else seat.pick(ROCR, outer)
    variables: Variables = {n: None for n in (HIP, ROCR, CUDA) if n in seat.inherited}
    return {**variables, chosen: device, "LOCAL_RANK": "0"}


def _through(seat: Seat, name: str, device: str, outer: list[str]) -> str:
    """Give the device that both filters leave, by its name before the first."""
    if not is_number(device):
        return device
    if int(device) >= len(outer):
        raise SpecError(
            f"{name}={seat.given(name)!r} names {device}, but {ROCR}={seat.given(ROCR)!r} "
            f"leaves {len(outer)}"
        )
    return outer[int(device)]
