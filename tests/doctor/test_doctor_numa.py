"""NUMA nodes and cgroups of other machines."""

import os

import pytest
from doctor_machines import MOUNT_V1, MOUNT_V2, tree, two_nodes

from procession.system import numa


def test_two_nodes(tmp_path):
    first, second = numa.nodes(tree(tmp_path, two_nodes()))
    assert first == numa.Node(0, (0, 1, 2, 3, 8, 9, 10, 11), 64 << 20)
    assert (second.number, second.memory) == (1, 32 << 20)


def test_a_node_that_is_offline_is_left_out(tmp_path):
    root = tree(tmp_path, {**two_nodes(), "/sys/devices/system/node/online": "1\n"})
    assert [n.number for n in numa.nodes(root)] == [1]


def test_a_node_without_cores_or_memory(tmp_path):
    root = tree(tmp_path, {"/sys/devices/system/node/node0/cpulist": "\n"})
    assert numa.nodes(root) == [numa.Node(0, (), None)]


def test_no_nodes(tmp_path):
    assert numa.nodes(str(tmp_path)) is None
    (tmp_path / "sys/devices/system/node").mkdir(parents=True)
    assert numa.nodes(str(tmp_path)) is None


@pytest.mark.parametrize(
    ("text", "cpus"),
    [("0", (0,)), ("0-2,5\n", (0, 1, 2, 5)), ("", ()), ("x", ()), ("1-", (1,)), ("3-1", ())],
)
def test_lists_of_cores(text, cpus):
    assert numa.parse_cpus(text) == cpus


@pytest.mark.parametrize("text", ["", "0", "0-3", "0-3,8", "1,3,5-6"])
def test_lists_of_cores_there_and_back(text):
    assert numa.format_cpus(numa.parse_cpus(text)) == text


def v2(path="/a/b", top="/", **files):
    told = {"/proc/self/cgroup": f"0::{path}\n", "/proc/self/mountinfo": MOUNT_V2.format(top)}
    return {**told, **{f"/sys/fs/cgroup{k}": v for k, v in files.pop("files", {}).items()}}


def test_v2_takes_the_lowest_limit_on_the_way_up(tmp_path):
    limits = {
        "/a/b/memory.max": "max\n",
        "/a/memory.max": "1073741824\n",
        "/a/b/pids.max": "max\n",
        "/a/b/cpu.max": "350000 100000\n",
        "/a/cpu.max": "max 100000\n",
        "/a/b/cgroup.procs": "1\n",
    }
    groups = numa.cgroups(tree(tmp_path, v2(files=limits)))
    assert groups.version == "2"
    assert groups.paths == {"": ("/sys/fs/cgroup/a/b", "/sys/fs/cgroup/a", "/sys/fs/cgroup")}
    assert groups.limit("memory", "memory.max", "memory.limit_in_bytes") == 1 << 30
    assert groups.limit("pids", "pids.max") is None
    assert groups.cores() == 3.5
    assert groups.writable()


def test_v2_in_a_container_with_its_own_root(tmp_path):
    groups = numa.cgroups(tree(tmp_path, v2("/", files={"/memory.max": "5\n"})))
    assert groups.limit("memory", "memory.max") == 5


def test_v2_outside_of_what_is_mounted(tmp_path):
    groups = numa.cgroups(tree(tmp_path, v2("/../../x", files={"/memory.max": "5\n"})))
    assert groups.paths[""] == ("/sys/fs/cgroup",)
    assert groups.limit("memory", "memory.max") == 5


def v1_files(path, top):
    mounts = "".join(
        MOUNT_V1.format(n, n, top, name, name) for n, name in enumerate(("memory", "cpu,cpuacct"))
    )
    return {
        "/proc/self/mountinfo": mounts + "1 2 0:3 / /proc rw - proc proc rw\nbroken\n",
        "/proc/self/cgroup": f"9:memory:{path}\n8:cpu,cpuacct:{path}\n1:name=systemd:/\n\n",
    }


def test_v1_in_a_container_that_sees_its_part_only(tmp_path):
    files = v1_files("/docker/1f", "/docker/1f") | {
        "/sys/fs/cgroup/memory/memory.limit_in_bytes": "2147483648\n",
        "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "50000\n",
        "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
    }
    groups = numa.cgroups(tree(tmp_path, files))
    assert groups.version == "1"
    assert groups.paths["memory"] == ("/sys/fs/cgroup/memory",)
    assert groups.limit("memory", "memory.max", "memory.limit_in_bytes") == 2 << 30
    assert groups.cores() == 0.5
    assert not groups.writable()


def test_v1_without_limits(tmp_path):
    files = v1_files("/x", "/") | {
        "/sys/fs/cgroup/memory/x/memory.limit_in_bytes": "9223372036854771712\n",
        "/sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us": "-1\n",
        "/sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_period_us": "100000\n",
    }
    groups = numa.cgroups(tree(tmp_path, files))
    assert groups.limit("memory", "memory.max", "memory.limit_in_bytes") is None
    assert groups.cores() is None


def test_both_versions(tmp_path):
    files = v1_files("/x", "/")
    files["/proc/self/cgroup"] += "0::/\n"
    files["/proc/self/mountinfo"] += MOUNT_V2.format("/").replace("cgroup rw", "cgroup/unified rw")
    assert numa.cgroups(tree(tmp_path, files)).version == "1 and 2"


def test_nothing_to_read(tmp_path):
    groups = numa.cgroups(str(tmp_path))
    assert (groups.version, groups.paths) == (None, {})
    assert groups.limit("memory", "memory.max") is None
    assert groups.cores() is None
    assert not groups.writable()


@pytest.mark.parametrize("text", ["", "max", "1 0", "0 0", "a b", "1", "1 2 3", "-1 100000"])
def test_quotas_that_are_none(tmp_path, text):
    groups = numa.cgroups(tree(tmp_path, v2("/", files={"/cpu.max": text})))
    assert groups.cores() is None


def test_a_cgroup_that_is_not_writable(tmp_path, monkeypatch):
    groups = numa.cgroups(tree(tmp_path, v2("/")))
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert not groups.writable()
