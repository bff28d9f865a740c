"""The NUMA node of each GPU, from what the kernel shows of its PCI device.

No vendor's library is loaded, see `accelerators`. GPUs are in the order in which the vendor numbers
them: that of PCI addresses for NVIDIA and Intel, that of the driver's list for AMD. Nothing here
raises.
"""

from __future__ import annotations

from procession.system.accelerators import intel_cards
from procession.system.files import entries, pairs, read
from procession.system.numa import nodes
from procession.values.base import Value
from procession.values.cpusets import parse_cpus

NVIDIA = "proc/driver/nvidia/gpus"
AMD = "sys/class/kfd/kfd/topology/nodes"
DRM = "sys/class/drm"
PCI = "sys/bus/pci/devices"


class Gpu(Value):
    """A GPU: its UUID ("" if unknown), and its NUMA node (None if unknown)."""

    uuid: str
    node: int | None


def gpus(root: str = "/") -> tuple[str, list[Gpu]]:
    """Give the kind of this machine's GPUs (`cuda`, `rocm`, `intel`; "" for none), and them."""
    for kind, look in (("cuda", _nvidia), ("rocm", _amd), ("intel", _intel)):
        found = look(root)
        if found:
            return kind, found
    return "", []


def _nvidia(root: str) -> list[Gpu]:
    found: list[Gpu] = []
    for address in entries(NVIDIA, r"[0-9a-fA-F]+:[0-9a-fA-F:.]+", root):
        said = pairs(f"{NVIDIA}/{address}/information", ":", root)
        found.append(Gpu(said.get("GPU UUID", ""), _node(f"{PCI}/{address.lower()}", root)))
    return found


def _amd(root: str) -> list[Gpu]:
    found: list[Gpu] = []
    for name in entries(AMD, r"\d+", root):
        if read(f"{AMD}/{name}/gpu_id", root) in (None, "", "0"):  # a processor has 0
            continue
        said = pairs(f"{AMD}/{name}/properties", " ", root)
        place, domain = said.get("location_id", ""), said.get("domain", "0")
        if not (place.isdecimal() and domain.isdecimal()):
            found.append(Gpu("", None))
            continue
        bus = int(place)
        address = f"{int(domain):04x}:{bus >> 8 & 0xFF:02x}:{bus >> 3 & 0x1F:02x}.{bus & 7}"
        found.append(Gpu("", _node(f"{PCI}/{address}", root)))
    return found


def _intel(root: str) -> list[Gpu]:
    cards = [name for name, integrated in intel_cards(root) if not integrated]
    return [Gpu("", _node(f"{DRM}/{name}/device", root)) for name in cards]


def _node(device: str, root: str) -> int | None:
    """Give the NUMA node of a PCI device. On a machine with one node the kernel often says -1."""
    text = read(f"{device}/numa_node", root) or ""
    if text.isdecimal():
        return int(text)
    there = nodes(root) or []
    near = set(parse_cpus(read(f"{device}/local_cpulist", root) or ""))
    fit = [n.number for n in there if near & set(n.cpus)]
    if len(fit) == 1:
        return fit[0]
    return there[0].number if len(there) == 1 else None
