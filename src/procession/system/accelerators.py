"""The accelerators of this machine, from device files and /sys, without any vendor's library.

Loading CUDA or ROCm to count devices takes seconds and leaves threads and open devices behind,
after which a process must not fork. What is found is what the kernel shows; it does not prove that
a framework can use it. Nothing here raises. A root directory lets tests show another machine.
"""

from __future__ import annotations

import os
from functools import partial

from procession.system.files import entries, pairs, read
from procession.values.base import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

INTEL, GOOGLE = "0x8086", "0x1ae0"
INTEGRATED = "0000:00:02.0"  # the PCI slot of graphics that are part of an Intel processor
# Google's PCI devices are also network cards and disks. v2 and v3, (no name), v4, v5p, v5e, v6e, 7x
TPU_DEVICES = ("0x0027", "0x0056", "0x005e", "0x0062", "0x0063", "0x006f", "0x0076")
DISPLAY_CLASS = "0x03"
NVIDIA = "proc/driver/nvidia/gpus"
AMD = "sys/class/kfd/kfd/topology/nodes"
DRM = "sys/class/drm"
PCI = "sys/bus/pci/devices"


class Device(Value):
    """One device, in the order in which its vendor numbers them: as a rule that of PCI addresses.

    name: its model, if known, else its file. files: that a program opens. uuid: "" if unknown.
    place: its directory in /sys, "" if unknown.
    """

    name: str
    files: tuple[str, ...]
    uuid: str = ""
    place: str = ""


class Accelerators(Value):
    """The accelerators of one kind: those that this process has device files for.

    known: how many the driver has, device files or not. faults: what keeps this process from using
    them.
    """

    kind: str
    devices: tuple[Device, ...]
    known: int
    faults: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        """How many this process has."""
        return len(self.devices)


def find(root: str = "/") -> list[Accelerators]:
    """Give what there is, by kind."""
    found: list[Accelerators] = []
    for kind, look in KINDS.items():
        known = look(root)
        here = [d for d in known if all(os.path.exists(_path(file, root)) for file in d.files)]
        files = dict.fromkeys(file for device in here for file in device.files)
        shut = [f for f in files if not os.access(_path(f, root), os.R_OK | os.W_OK)]
        faults = (f"no permission to open {', '.join(shut)}",) if shut else ()
        if known and not here:
            faults = (f"the driver knows {len(known)}, there are device files for none",)
        if known:
            found.append(Accelerators(kind, tuple(here), len(known), faults))
    return found


def _path(file: str, root: str) -> str:
    return os.path.join(root, file.lstrip("/"))


def _files(pattern: str, root: str, directory: str = "/dev") -> list[Device]:
    """Give the device files of a name, each as a device."""
    found = [f"{directory}/{name}" for name in entries(directory, pattern, root)]
    return [Device(file, (file,)) for file in found if not os.path.isdir(_path(file, root))]


def _nvidia(root: str) -> list[Device]:
    found: list[Device] = []
    for address in entries(NVIDIA, r"[0-9a-fA-F:.]+", root):
        said = pairs(f"{NVIDIA}/{address}/information", ":", root)
        file = f"/dev/nvidia{said.get('Device Minor')}"
        name, uuid = said.get("Model") or file, said.get("GPU UUID", "")
        found.append(Device(name, (file,), uuid, f"{PCI}/{address.lower()}"))
    return found or _files(r"nvidia\d+", root)


def _amd(root: str) -> list[Device]:
    found: list[Device] = []
    for node in entries(AMD, r"\d+", root):
        if read(f"{AMD}/{node}/gpu_id", root) in (None, "", "0"):  # a processor has 0
            continue
        said = pairs(f"{AMD}/{node}/properties", " ", root)
        render = f"/dev/dri/renderD{said.get('drm_render_minor')}"
        where, domain, place = said.get("location_id", ""), said.get("domain", "0"), ""
        if where.isdecimal() and domain.isdecimal():
            bus = int(where)
            address = f"{int(domain):04x}:{bus >> 8 & 0xFF:02x}:{bus >> 3 & 0x1F:02x}.{bus & 7}"
            place = f"{PCI}/{address}"
        found.append(Device(render, ("/dev/kfd", render), place=place))
    return found


def _intel(root: str) -> list[Device]:
    """Give Intel's cards, without the graphics that are part of a processor."""
    found: list[Device] = []
    for name in entries(DRM, r"renderD\d+", root):
        place = f"{DRM}/{name}/device"
        display = (read(f"{place}/class", root) or "").startswith(DISPLAY_CLASS)
        own = pairs(f"{place}/uevent", "=", root).get("PCI_SLOT_NAME") == INTEGRATED
        if display and not own and read(f"{place}/vendor", root) == INTEL:
            found.append(Device(f"/dev/dri/{name}", (f"/dev/dri/{name}",), place=place))
    return found


def _tpu(root: str) -> list[Device]:
    chips = [
        Device(address, (f"/dev/accel of {address}",))
        for address in entries(PCI, r"[0-9a-f:.]+", root)
        if read(f"{PCI}/{address}/vendor", root) == GOOGLE
        and read(f"{PCI}/{address}/device", root) in TPU_DEVICES
    ]
    # Other vendors' devices are handed over by vfio, too.
    files = _files(r"accel\d+", root) or _files(r"\d+", root, "/dev/vfio")[: len(chips)]
    return files + chips[len(files) :]


KINDS: dict[str, Callable[[str], list[Device]]] = {
    "NVIDIA": _nvidia,
    "AMD": _amd,
    "Intel": _intel,
    "Ascend": partial(_files, r"davinci\d+"),
    "Neuron": partial(_files, r"neuron\d+"),
    "TPU": _tpu,
}
