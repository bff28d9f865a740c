"""Cgroups of other machines."""

import pytest
from doctor_machines import MOUNT_V2, tree

from seams.system import cgroups


def v2(path="/a/b", top="/", **files):
    told = {"/proc/self/cgroup": f"0::{path}\n", "/proc/self/mountinfo": MOUNT_V2.format(top)}
    return {**told, **{f"/sys/fs/cgroup{k}": v for k, v in files.pop("files", {}).items()}}


def test_v2_takes_the_lowest_limit_on_the_way_up(tmp_path):
    limits = {
        "/a/b/memory.max": "max\n",
        "/a/memory.max": "1073741824\n",
        "/a/b/cpu.max": "350000 100000\n",
        "/a/cpu.max": "max 100000\n",
        "/a/b/cgroup.procs": "1\n",
    }
    groups = cgroups(tree(tmp_path, v2(files=limits)))
    assert groups.own
    assert groups.paths == ("/sys/fs/cgroup/a/b", "/sys/fs/cgroup/a", "/sys/fs/cgroup")
    assert groups.memory() == 1 << 30
    assert groups.cores() == 3.5


@pytest.mark.parametrize(("path", "top"), [("/other", "/docker/1f"), ("/", "/../..")])
def test_a_mount_of_another_part_of_the_tree(tmp_path, path, top):
    groups = cgroups(tree(tmp_path, v2(path, top)))
    assert groups.paths == ("/sys/fs/cgroup",)
    assert not groups.own
