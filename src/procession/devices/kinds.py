"""The kinds of accelerators: the variables that give a rank a device of its own, by kind.

Pure: from what a rank inherits to what is added. TPUs have a file of their own, see `tpu`.

- NVIDIA: CUDA_VISIBLE_DEVICES names GPUs, or parts of them (MIG).
- AMD: ROCR_VISIBLE_DEVICES filters first; HIP_VISIBLE_DEVICES, or CUDA_VISIBLE_DEVICES where that
  is not set, numbers what is left. A rank gets one of them only. Slurm may set CUDA's, too.
- Intel: ZE_AFFINITY_MASK filters first; ONEAPI_DEVICE_SELECTOR numbers what is left, and may only
  name all of it. oneCCL needs the rank's number and count where there is no MPI.
- Huawei Ascend: ASCEND_RT_VISIBLE_DEVICES names NPUs by numbers, without spaces.
- AWS Neuron: NEURON_RT_VISIBLE_CORES names cores and ranges of them.
- JAX: JAX_LOCAL_DEVICE_IDS. It has no variables for the number of a process and their count:
  `procession.jax.initialize` passes them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from procession.devices.seat import Seat, Variables
from procession.devices.tpu import tpu
from procession.values.errors import SpecError
from procession.values.figures import parse_ranks

CUDA, HIP, ROCR = "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"
MASK, SELECTOR = "ZE_AFFINITY_MASK", "ONEAPI_DEVICE_SELECTOR"
ASCEND, CORES, JAX = "ASCEND_RT_VISIBLE_DEVICES", "NEURON_RT_VISIBLE_CORES", "JAX_LOCAL_DEVICE_IDS"

BACKEND = "level_zero"  # of Intel's
ALL = (f"{BACKEND}:*", f"{BACKEND}:gpu")
LOOPBACK = ("127.0.0.1:", "localhost:", "[::1]:")


@dataclass(frozen=True)
class DeviceKind:
    """One kind. environment: gives the variables of one rank, of which None takes one away."""

    environment: Callable[[Seat], Variables]
    lists: tuple[str, ...]  # the variables that name devices
    found_as: str = ""  # what `system.accelerators` calls it
    meets: bool = False  # whether its ranks need a meeting point of their own


def _cuda(seat: Seat) -> Variables:
    return {CUDA: seat.device(CUDA), "LOCAL_RANK": "0"}


def virtual(seat: Seat) -> Variables:
    """Give the variables of torchrun's virtual local rank: ROCm reads HIP's before CUDA's."""
    name = HIP if seat.inherited.get(HIP) else CUDA
    device = seat.device(name)
    return {CUDA: device, name: device, "LOCAL_RANK": "0"}


def _rocm(seat: Seat) -> Variables:
    if ROCR in seat.inherited and HIP in seat.inherited:
        raise SpecError(f"{ROCR} and {HIP} both filter devices: unset one of them")
    found = [n for n in (ROCR, HIP, CUDA) if n in seat.inherited]
    name = found[0] if found else HIP
    variables: Variables = dict.fromkeys(found)
    variables[HIP if name == CUDA else name] = seat.device(name)
    return {**variables, "LOCAL_RANK": "0"}


def _intel(seat: Seat) -> Variables:
    """Local rank 0 is for the device; oneCCL gets the rank's own number."""
    variables = seat.defaults({"CCL_PROCESS_LAUNCHER": "none"})
    text = seat.inherited.get(SELECTOR)
    if text is not None:
        if text not in ALL:
            raise SpecError(f"{SELECTOR}={text!r} cannot be dealt out to ranks: use {MASK}")
        variables[SELECTOR] = f"{BACKEND}:0"  # it names all that the mask leaves
    variables[MASK] = seat.device(MASK)
    return variables | {
        "CCL_LOCAL_RANK": str(seat.local_rank),
        "CCL_LOCAL_SIZE": str(seat.local_world_size),
        "LOCAL_RANK": "0",
    }


def _ascend(seat: Seat) -> Variables:
    devices = seat.devices(ASCEND, numbers=True)
    if devices is not None:
        # The runtime reads the list only if it ascends; so ranks get them in that order.
        devices = [str(n) for n in sorted(map(int, devices))]
    return {ASCEND: seat.pick(ASCEND, devices), "LOCAL_RANK": "0"}


def _neuron(seat: Seat) -> Variables:
    """One core, and its number among all; the rank is alone on its machine, as it seems to it.

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
    text = seat.inherited.get(CORES)
    if text is None:
        return None
    try:
        cores = [core for part in text.split(",") for core in sorted(parse_ranks(part))]
    except ValueError:
        raise SpecError(f"{CORES}={text!r} is not a list of cores, such as 0-3,8") from None
    if len(set(cores)) < len(cores):
        raise SpecError(f"{CORES}={text!r} names a core twice")
    return [str(c) for c in cores]


def _jax(seat: Seat) -> Variables:
    values = {"JAX_ENABLE_PREEMPTION_SERVICE": "0"}  # with it, JAX ignores the stop signal
    if seat.endpoint:
        values["JAX_COORDINATOR_ADDRESS"] = seat.endpoint
        if seat.endpoint.startswith(LOOPBACK):  # else JAX listens on every interface
            values["JAX_COORDINATOR_BIND_ADDRESS"] = seat.endpoint
    device = seat.pick(JAX, seat.devices(JAX, numbers=True))
    return {JAX: device, **seat.defaults(values)}


KINDS: dict[str, DeviceKind] = {
    "cuda": DeviceKind(_cuda, (CUDA,), "NVIDIA"),
    "rocm": DeviceKind(_rocm, (HIP, ROCR, CUDA), "AMD"),
    "intel": DeviceKind(_intel, (MASK, SELECTOR), "Intel"),
    "ascend": DeviceKind(_ascend, (ASCEND,), "Ascend"),
    "neuron": DeviceKind(_neuron, (CORES,), "Neuron", meets=True),
    "tpu": DeviceKind(tpu, (), "TPU"),
    "jax": DeviceKind(_jax, (JAX,), meets=True),
}
