"""The accelerators of this machine, from device files and /sys, without any vendor's library.

Loading CUDA or ROCm to count devices takes seconds and leaves threads and open devices behind,
after which a process must not fork. What is found is what the kernel shows; it does not prove that
a framework can use it. Nothing here raises. Everything takes a root directory and an environment,
so that tests can show it another machine.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from procession.system.files import entries, number, pairs, read

INTEL, GOOGLE = "0x8086", "0x1ae0"
INTEGRATED = "0000:00:02.0"  # the PCI slot of graphics that are part of an Intel processor
# Google's PCI devices are also network cards and disks. v2 and v3, (no name), v4, v5p, v5e, v6e, 7x
TPU_DEVICES = ("0x0027", "0x0056", "0x005e", "0x0062", "0x0063", "0x006f", "0x0076")
DISPLAY_CLASS = "0x03"


@dataclass(frozen=True)
class Accelerators:
    """The accelerators of one kind.

    count: those that this process has device files for. names: models, if known, else device files.
    variables: environment variables that are set and choose among them. notes: what people should
    know. faults: what keeps this process from using them.
    """

    kind: str
    count: int
    names: tuple[str, ...] = ()
    variables: dict[str, str] = field(default_factory=dict[str, str])
    notes: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()


def find(root: str = "/", env: Mapping[str, str] = os.environ) -> list[Accelerators]:
    """Give what there is, by kind."""
    found = [look(_Machine(root, env)) for look in KINDS]
    return [f for f in found if f is not None]


class _Machine:
    def __init__(self, root: str, env: Mapping[str, str]) -> None:
        self.root = root
        self._env = env

    def names(self, directory: str, pattern: str) -> list[str]:
        return entries(directory, pattern, self.root)

    def pairs(self, path: str, separator: str) -> dict[str, str]:
        return pairs(path, separator, self.root)

    def devices(self, pattern: str, directory: str = "/dev") -> list[str]:
        found = [f"{directory}/{name}" for name in self.names(directory, pattern)]
        return [f for f in found if not os.path.isdir(self.path(f))]

    def path(self, path: str) -> str:
        return os.path.join(self.root, path.lstrip("/"))

    def read(self, path: str) -> str:
        return read(path, self.root) or ""

    def variables(self, *names: str) -> dict[str, str]:
        return {n: self._env[n] for n in names if n in self._env}


def _hidden(variables: Mapping[str, str]) -> tuple[str, ...]:
    empty = [n for n, value in variables.items() if value.strip() in ("", "-1", "NoDevFiles")]
    return tuple(f"{name} hides them all" for name in empty)


def _shut(m: _Machine, devices: Sequence[str]) -> list[str]:
    shut = [d for d in devices if not os.access(m.path(d), os.R_OK | os.W_OK)]
    return [f"no permission to open {', '.join(shut)}"] if shut else []


def _made(
    m: _Machine,
    kind: str,
    devices: Sequence[str],
    variables: dict[str, str],
    *,
    names: Sequence[str] | None = None,
    known: int = 0,
    notes: Sequence[str] = (),
) -> Accelerators:
    """Make the answer. `known` is how many the driver has, device files or not."""
    faults = _shut(m, devices)
    if known > len(devices):
        lacks = f"the driver knows {known}, there are device files for {len(devices)}"
        notes, faults = ([*notes, lacks], faults) if devices else (notes, [*faults, lacks])
    shown = tuple(devices if names is None else names)
    notes = (*notes, *_hidden(variables))
    return Accelerators(kind, len(shown), shown, variables, notes, tuple(faults))


def _nvidia(m: _Machine) -> Accelerators | None:
    devices = m.devices(r"nvidia\d+")
    models: dict[str, str] = {}  # by device file
    addresses = m.names("/proc/driver/nvidia/gpus", r"[0-9a-fA-F:.]+")
    for address in addresses:
        said = m.pairs(f"/proc/driver/nvidia/gpus/{address}/information", ":")
        models[f"/dev/nvidia{said.get('Device Minor')}"] = said.get("Model", "")
    if not devices and not addresses:
        return None
    variables = m.variables("CUDA_VISIBLE_DEVICES")
    names = [models.get(d) or d for d in devices]
    return _made(m, "NVIDIA", devices, variables, names=names, known=len(addresses))


def _amd(m: _Machine) -> Accelerators | None:
    nodes = "/sys/class/kfd/kfd/topology/nodes"
    devices: list[str] = []
    models: list[str] = []
    known = 0
    for node in m.names(nodes, r"\d+"):
        if not number(f"{nodes}/{node}/gpu_id", m.root):  # a processor has 0
            continue
        known += 1
        said = m.pairs(f"{nodes}/{node}/properties", " ")
        render = f"/dev/dri/renderD{said.get('drm_render_minor')}"
        if os.path.exists(m.path(render)):  # a container may have some of them
            devices.append(render)
            models.append(_gfx(said.get("gfx_target_version", "")) or render)
    here = m.devices("kfd")
    if not known and not here:
        return None
    variables = m.variables("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
    notes = [] if known else ["the driver is loaded, but knows no GPU"]
    if len(variables) == 2:
        notes.append("HIP_VISIBLE_DEVICES chooses among what ROCR_VISIBLE_DEVICES leaves")
    if not here:
        devices, models = [], []
    made = _made(m, "AMD", devices, variables, names=models, known=known, notes=notes)
    faults = _shut(m, here) if here else ["there is no /dev/kfd"]
    return replace(made, faults=(*made.faults, *faults))


def _gfx(version: str) -> str:
    """Give the architecture's name: 90402 is gfx942, 90010 gfx90a."""
    if not version.isdecimal() or not int(version):
        return ""
    n = int(version)
    return f"gfx{n // 10000}{n // 100 % 100:x}{n % 100:x}"


def intel_cards(root: str = "/") -> list[tuple[str, bool]]:
    """Give Intel's graphics under /sys/class/drm, and whether each is the processor's own."""
    cards: list[tuple[str, bool]] = []
    for name in entries("sys/class/drm", r"renderD\d+", root):
        device = f"sys/class/drm/{name}/device"
        display = (read(f"{device}/class", root) or "").startswith(DISPLAY_CLASS)
        if read(f"{device}/vendor", root) == INTEL and display:
            own = f"PCI_SLOT_NAME={INTEGRATED}" in (read(f"{device}/uevent", root) or "")
            cards.append((name, own))
    return cards


def _intel(m: _Machine) -> Accelerators | None:
    found = intel_cards(m.root)
    cards = [f"/dev/dri/{name}" for name, integrated in found if not integrated]
    notes = ["the processor's own graphics is not counted"] if len(cards) < len(found) else []
    if not cards and not notes:
        return None
    devices = [c for c in cards if os.path.exists(m.path(c))]
    variables = m.variables("ZE_AFFINITY_MASK", "ONEAPI_DEVICE_SELECTOR")
    return _made(m, "Intel", devices, variables, known=len(cards), notes=notes)


def _ascend(m: _Machine) -> Accelerators | None:
    devices = m.devices(r"davinci\d+")
    variables = m.variables("ASCEND_RT_VISIBLE_DEVICES", "ASCEND_VISIBLE_DEVICES")
    return _made(m, "Ascend", devices, variables) if devices else None


def _neuron(m: _Machine) -> Accelerators | None:
    devices = m.devices(r"neuron\d+")
    names: list[str] = []
    for device in devices:
        tree = f"/sys/devices/virtual/neuron_device/{os.path.basename(device)}"
        cores = len(m.names(tree, r"neuron_core\d+"))
        names.append(f"{device} with {cores} cores" if cores else device)
    variables = m.variables("NEURON_RT_VISIBLE_CORES", "NEURONCORE_NUM_DEVICES")
    return _made(m, "Neuron", devices, variables, names=names) if devices else None


def _tpu(m: _Machine) -> Accelerators | None:
    pci = "/sys/bus/pci/devices"
    chips = [
        address
        for address in m.names(pci, r"[0-9a-f:.]+")
        if m.read(f"{pci}/{address}/vendor") == GOOGLE
        and m.read(f"{pci}/{address}/device") in TPU_DEVICES
    ]
    # Other vendors' devices are handed over by vfio, too.
    devices = m.devices(r"accel\d+") or m.devices(r"\d+", "/dev/vfio")[: len(chips)]
    variables = m.variables(
        "TPU_VISIBLE_CHIPS", "TPU_ACCELERATOR_TYPE", "TPU_WORKER_ID", "PJRT_DEVICE",
        "XRT_TPU_CONFIG", "XRT_LOCAL_WORKER",
    )  # fmt: skip
    asked = variables.keys() - {"PJRT_DEVICE"} or variables.get("PJRT_DEVICE") == "TPU"
    if not devices and not chips and not asked:
        return None
    made = _made(m, "TPU", devices, variables, known=len(chips))
    if not devices and not chips:
        return replace(made, faults=("set up by variables, but there is no chip here",))
    return made


KINDS: tuple[Callable[[_Machine], Accelerators | None], ...] = (
    _nvidia,
    _amd,
    _intel,
    _ascend,
    _neuron,
    _tpu,
)
