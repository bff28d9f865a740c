"""NVIDIA: CUDA_VISIBLE_DEVICES."""

from __future__ import annotations

from procession.devices.seat import Seat, Variables

NAME = "CUDA_VISIBLE_DEVICES"


def environment(seat: Seat) -> Variables:
    """Give the rank one GPU, or one part of it (MIG): its local rank becomes 0."""
    return {NAME: seat.device(NAME), "LOCAL_RANK": "0"}
