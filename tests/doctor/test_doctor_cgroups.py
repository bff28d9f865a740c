"""Cgroups of other machines."""

import pytest
from doctor_machines import MOUNT_V1, MOUNT_V2, tree

from seams.system import cgroups


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
    groups = cgroups(tree(tmp_path, v2(files=limits)))
    assert groups.version == "2"
    assert groups.paths == {"": ("/sys/fs/cgroup/a/b", "/sys/fs/cgroup/a", "/sys/fs/cgroup")}
    assert groups.memory() == 1 << 30
    assert groups.limit("pids", "pids.max") is None
    assert groups.cores() == 3.5


@pytest.mark.parametrize(("path", "top"), [("/other", "/docker/1f"), ("/", "/../..")])
def test_a_mount_of_another_part_of_the_tree(tmp_path, path, top):
    groups = cgroups(tree(tmp_path, v2(path, top)))
    assert groups.paths[""] == ("/sys/fs/cgroup",)
    assert groups.hidden == {""}


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
    groups = cgroups(tree(tmp_path, files))
    assert groups.version == "1"
    assert groups.paths["memory"] == ("/sys/fs/cgroup/memory",)
    assert groups.hidden == set()
    assert groups.memory() == 2 << 30
    assert groups.cores() == 0.5
