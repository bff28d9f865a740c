"""Reading how CPUs and GPUs lie, on machines that are made up of files."""

import sys
from pathlib import Path

import pytest

from procession import Placement
from seams.prepare import place
from seams.system import accelerators, numa, read_cpus
from seams.values import Cpu, make_spec

sys.path.insert(0, str(Path(__file__).parents[1] / "doctor"))
from doctor_machines import amd, intel, tree, two_nodes

CPU = "/sys/devices/system/cpu"
PCI = "/sys/bus/pci/devices"


def cpus(count=16, half=8):
    """Make 16 CPUs on two sockets: 0-3 and 8-11 on the first one, n and n + 8 of one core."""
    files = {}
    for n in range(count):
        core = n % half
        first = core // 4 * 4
        place = f"{CPU}/cpu{n}"
        files |= {
            f"{place}/topology/physical_package_id": f"{core // 4}\n",
            f"{place}/topology/thread_siblings_list": f"{core},{core + half}\n",
            f"{place}/cache/index0/shared_cpu_list": f"{core},{core + half}\n",
            f"{place}/cache/index1/shared_cpu_list": "0-15\n",
            f"{place}/cache/index3/shared_cpu_list": f"{first}-{first + 3}\n",
        }
    return files


def gpu(number, address, node=None, uuid=""):
    said = f"GPU UUID: \t {uuid}\nDevice Minor: \t {number}\n"
    place = f"/proc/driver/nvidia/gpus/{address}/information"
    files = {place: said, f"/dev/nvidia{number}": None}
    if node is not None:
        files[f"{PCI}/{address.lower()}/numa_node"] = f"{node}\n"
    return files


def test_cpus_that_may_be_used(tmp_path):
    root = tree(tmp_path, {**two_nodes(), **cpus()})
    assert read_cpus({0, 8, 5, 15}, root) == [
        Cpu(0, 0, 0, 0, 0),
        Cpu(5, 5, 4, 1, 1),
        Cpu(8, 0, 0, 0, 0),
        Cpu(15, 7, 4, 1, 1),
    ]


def test_a_machine_that_tells_nothing(tmp_path):
    assert read_cpus({1, 3}, str(tmp_path)) == [Cpu(1, 1, 0, 0, 0), Cpu(3, 3, 0, 0, 0)]


def gpus(root):
    (found,) = accelerators.find(root)
    return [(gpu.uuid, numa.node_of(gpu.place, root)) for gpu in found.devices]


def test_nvidia(tmp_path):
    files = {
        **two_nodes(),
        **gpu(0, "0000:81:00.0", 1, "GPU-b"),
        **gpu(1, "0000:0A:00.0", 0, "GPU-a"),
        **gpu(2, "0000:D1:00.0", -1, "GPU-d"),
    }
    found = [("GPU-a", 0), ("GPU-b", 1), ("GPU-d", None)]
    assert gpus(tree(tmp_path, files)) == found


def test_amd(tmp_path):
    kfd = "/sys/class/kfd/kfd/topology/nodes"
    files = {**two_nodes(), **amd(0, 0, gpu_id="0"), **amd(1, 128), **amd(2, 129)}
    files |= dict.fromkeys(("/dev/kfd", "/dev/dri/renderD128", "/dev/dri/renderD129"))
    files[f"{kfd}/1/properties"] += f"location_id {0xC1 << 8}\ndomain 0\n"
    files[f"{PCI}/0000:c1:00.0/numa_node"] = "1\n"
    assert gpus(tree(tmp_path, files)) == [("", 1), ("", None)]


def test_intel(tmp_path):
    files = {**two_nodes(), **intel(128, "0000:00:02.0"), **intel(129, "0000:4d:00.0")}
    files |= {"/sys/class/drm/renderD129/device/numa_node": "1\n", "/dev/dri/renderD129": None}
    assert gpus(tree(tmp_path, files)) == [("", 1)]


@pytest.fixture
def server(tmp_path, monkeypatch):
    """Two nodes of eight CPUs, and four GPUs, the first two of them on node 1."""
    files = {**two_nodes(), **cpus()}
    for k, node in enumerate((1, 1, 0, 0)):
        files |= gpu(k, f"0000:{k + 1:02x}:00.0", node, f"GPU-{k}{k}")
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(16)))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return tree(tmp_path, files)


NODE = {0: (0, 1, 2, 3, 8, 9, 10, 11), 1: (4, 5, 6, 7, 12, 13, 14, 15)}


def placed(server, nproc, env=None, inherited=None, **how):
    spec = make_spec(("true",), nproc=nproc, env=env, placement=Placement(**how))
    return place(spec, inherited or {}, server)


def test_a_rank_goes_where_its_gpu_is(server):
    found = placed(server, 4, numa="node")
    assert found.cpus == (NODE[1], NODE[1], NODE[0], NODE[0])
    assert found.threads == (4, 4, 4, 4)
    assert found.notes == ()


@pytest.mark.parametrize(
    ("visible", "nodes"),
    [("2,0", (0, 1)), ("GPU-33,GPU-0", (0, 1)), ({0: "3", 1: "1"}, (0, 1)), (" 1 , 2 ", (1, 0))],
)
def test_the_gpus_that_a_rank_sees(server, visible, nodes):
    name = "CUDA_VISIBLE_DEVICES"
    if isinstance(visible, dict):
        found = placed(server, 2, {r: {name: v} for r, v in visible.items()}, numa="node")
    else:
        found = placed(server, 2, inherited={name: visible}, numa="node")
    assert found.cpus == tuple(NODE[n] for n in nodes)


@pytest.mark.parametrize("visible", ["", "-1", "0", "MIG-1,MIG-2", "7,8"])
def test_where_no_gpu_is_known_ranks_are_dealt_and_it_is_said(server, visible):
    found = placed(server, 2, {1: {"CUDA_VISIBLE_DEVICES": visible}, 0: {}}, numa="node")
    if visible == "0":  # its own one
        assert found.cpus == (NODE[1], NODE[1])
        return
    assert found.cpus == (NODE[0], NODE[1])
    assert len(found.notes) == 1
    assert "dealt in turn over 2 NUMA nodes" in found.notes[0]


def test_exclusive_shares_a_node_among_the_ranks(server):
    found = placed(server, 3, numa="exclusive")
    assert found.cpus == ((4, 5, 12, 13), (6, 7, 14, 15), NODE[0])
    assert found.threads == (4, 4, 8)
    assert found.variables(2, {}) == {"OMP_NUM_THREADS": "8"}
    assert found.variables(2, {"OMP_NUM_THREADS": "1"}) == {}
