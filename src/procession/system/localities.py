"""The NUMA node of each GPU, from what the kernel shows of its PCI device.

No vendor's library is loaded, see `accelerators`. GPUs are in the order in which their numbers
count: of their PCI addresses for NVIDIA and Intel, of the driver's own list for AMD. Nothing here
raises.
"""

from __future__ import annotations

import os
import re

from procession.system.files import read
from procession.system.numa import nodes, parse_cpus
from procession.values import Value

NVIDIA = "proc/driver/nvidia/gpus"
AMD = "sys/class/kfd/kfd/topology/nodes"
DRM = "sys/class/drm"
PCI = "sys/bus/pci/devices"
INTEL, DISPLAY, INTEGRATED = "0x8086", "0x03", "0000:00:02.0"


class Gpu(Value):
    """A GPU: its UUID ("": not known), and its NUMA node (None: not known)."""

    uuid: str
    node: int | None


def gpus(root: str = "/") -> tuple[str, list[Gpu]]:
    """Give the kind of this machine's GPUs (`cuda`, `rocm`, `intel`; "" for none), and them."""
    for kind, look in (("cuda", _nvidia), ("rocm", _amd), ("intel", _intel)):
        found = look(root)
        if found:
            return kind, found
    return "", []


def _names(directory: str, pattern: str, root: str) -> list[str]:
    try:
        names = os.listdir(os.path.join(root, directory))
    except OSError:
        return []
    matching = [n for n in names if re.fullmatch(pattern, n)]
    return sorted(matching, key=lambda n: [int(w, 16) for w in re.findall(r"[0-9a-fA-F]+", n)])


def _nvidia(root: str) -> list[Gpu]:
    found: list[Gpu] = []
    for address in _names(NVIDIA, r"[0-9a-fA-F]+:[0-9a-fA-F:.]+", root):
        told = _told(f"{NVIDIA}/{address}/information", ":", root)
        found.append(Gpu(told.get("GPU UUID", ""), _node(f"{PCI}/{address.lower()}", root)))
    return found


def _amd(root: str) -> list[Gpu]:
    found: list[Gpu] = []
    for name in _names(AMD, r"\d+", root):
        if read(f"{AMD}/{name}/gpu_id", root) in (None, "", "0"):  # a processor has 0
            continue
        told = _told(f"{AMD}/{name}/properties", " ", root)
        place, domain = told.get("location_id", ""), told.get("domain", "0")
        if not (place.isdecimal() and domain.isdecimal()):
            found.append(Gpu("", None))
            continue
        bus = int(place)
        address = f"{int(domain):04x}:{bus >> 8 & 0xFF:02x}:{bus >> 3 & 0x1F:02x}.{bus & 7}"
        found.append(Gpu("", _node(f"{PCI}/{address}", root)))
    return found


def _intel(root: str) -> list[Gpu]:
    found: list[Gpu] = []
    for name in _names(DRM, r"renderD\d+", root):
        device = f"{DRM}/{name}/device"
        integrated = f"PCI_SLOT_NAME={INTEGRATED}" in (read(f"{device}/uevent", root) or "")
        display = (read(f"{device}/class", root) or "").startswith(DISPLAY)
        if read(f"{device}/vendor", root) == INTEL and display and not integrated:
            found.append(Gpu("", _node(device, root)))
    return found


def _node(device: str, root: str) -> int | None:
    """Give the NUMA node of a PCI device; on a machine of one node it is often said to be -1."""
    text = read(f"{device}/numa_node", root) or ""
    if text.isdecimal():
        return int(text)
    there = nodes(root) or []
    near = set(parse_cpus(read(f"{device}/local_cpulist", root) or ""))
    fit = [n.number for n in there if near & set(n.cpus)]
    if len(fit) == 1:
        return fit[0]
    return there[0].number if len(there) == 1 else None


def _told(path: str, separator: str, root: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in (read(path, root) or "").splitlines():
        name, _, value = line.partition(separator)
        found[name.strip()] = value.strip()
    return found
