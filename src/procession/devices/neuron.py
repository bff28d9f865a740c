"""AWS Neuron: one core per rank."""

from __future__ import annotations

from procession.devices.seat import Seat, Variables, is_number
from procession.errors import SpecError

CORES = "NEURON_RT_VISIBLE_CORES"
LONGEST = 5  # digits of the number of a core


def environment(seat: Seat) -> Variables:
    """Give the rank one core and its place among all; it looks alone on its machine.

    torch_xla deals out the cores itself among the LOCAL_WORLD_SIZE ranks of a machine, and refuses
    a list of another length: one core and one rank is what it takes as it is.
    """
    variables: Variables = {
        CORES: seat.pick(CORES, _cores(seat)),
        "NEURON_PJRT_PROCESS_INDEX": str(seat.rank),
        "NEURON_PJRT_PROCESSES_NUM_DEVICES": ",".join(["1"] * seat.world_size),
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
    }
    if seat.endpoint:
        variables |= seat.defaults({"NEURON_RT_ROOT_COMM_ID": seat.endpoint})
    return variables


def _cores(seat: Seat) -> list[str] | None:
    """Read a list of cores and ranges of them: `0-3,8`."""
    text = seat.given(CORES)
    if text is None:
        return None
    cores: list[int] = []
    for part in text.split(","):
        first, dash, last = (w.strip() for w in part.partition("-"))
        last = last if dash else first
        numbers = is_number(first) and is_number(last) and len(last) <= LONGEST
        if not numbers or int(first) > int(last):
            raise SpecError(f"{CORES}={text!r} is not a list of cores, such as 0-3,8")
        cores += range(int(first), int(last) + 1)
    if len(set(cores)) < len(cores):
        raise SpecError(f"{CORES}={text!r} names a core twice")
    return [str(c) for c in cores]
