"""Makes directory trees that look like the /proc, /sys and /dev of other machines."""

import os


def tree(root, files):
    """Write files below `root`, by path; None makes an empty one."""
    for path, text in files.items():
        place = os.path.join(root, path.lstrip("/"))
        os.makedirs(os.path.dirname(place), exist_ok=True)
        with open(place, "w") as f:
            f.write(text or "")
    return str(root)


MOUNT_V2 = "30 23 0:26 {} /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"


def two_nodes():
    node = "/sys/devices/system/node"
    return {
        f"{node}/node0/cpulist": "0-3,8-11\n",
        f"{node}/node0/meminfo": "Node 0 MemTotal:       65536 kB\nNode 0 MemFree:  1 kB\n",
        f"{node}/node1/cpulist": "4-7,12-15\n",
        f"{node}/node1/meminfo": "Node 1 MemTotal:       32768 kB\n",
    }


def nvidia(number, model="NVIDIA H100 80GB HBM3"):
    address = f"0000:{number + 10:02x}:00.0"
    return {
        f"/proc/driver/nvidia/gpus/{address}/information": f"Model: \t\t {model}\n"
        f"IRQ:   \t\t 12\nGPU UUID: \t GPU-1\nDevice Minor: \t {number}\n",
    }


def amd(node, minor, version="90402", gpu_id="1234"):
    place = f"/sys/class/kfd/kfd/topology/nodes/{node}"
    return {
        f"{place}/gpu_id": f"{gpu_id}\n",
        f"{place}/properties": f"cpu_cores_count 0\ndrm_render_minor {minor}\n"
        f"gfx_target_version {version}\n",
    }


def intel(minor, slot, vendor="0x8086", kind="0x038000"):
    place = f"/sys/class/drm/renderD{minor}/device"
    return {
        f"{place}/vendor": f"{vendor}\n",
        f"{place}/class": f"{kind}\n",
        f"{place}/uevent": f"DRIVER=i915\nPCI_SLOT_NAME={slot}\n",
    }


def pci(address, vendor, device):
    place = f"/sys/bus/pci/devices/{address}"
    return {f"{place}/vendor": f"{vendor}\n", f"{place}/device": f"{device}\n"}
