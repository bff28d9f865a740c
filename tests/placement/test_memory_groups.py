"""Cgroups for ranks, in a directory tree that looks like a cgroup file system."""

import os
import sys
from pathlib import Path

import pytest

from seams.system import MemoryGroups, memory_groups

sys.path.insert(0, str(Path(__file__).parents[1] / "doctor"))
from doctor_machines import MOUNT_V2, tree

OWN = "/sys/fs/cgroup/user/job"
LIMIT = 512 << 20


class Kernel:
    """What a cgroup file system would do about what is written and made in it."""

    def __init__(self, root, monkeypatch, controllers="cpu memory", given="", pids=None):
        self.own = f"{root}{OWN}"
        self.deny = ()
        tree(
            root,
            {
                "/proc/self/mountinfo": MOUNT_V2.format("/"),
                "/proc/self/cgroup": "0::/user/job\n",
                f"{OWN}/cgroup.controllers": controllers,
                f"{OWN}/cgroup.subtree_control": given,
                f"{OWN}/cgroup.procs": "\n".join(map(str, pids or [os.getpid()])),
            },
        )
        self.root = str(root)
        mkdir, rmdir = os.mkdir, os.rmdir

        def make(path, *rest):
            mkdir(path, *rest)
            for name in ("cgroup.procs", "memory.max", "memory.oom.group", "memory.events"):
                Path(path, name).write_text("")

        def remove(path):
            if self.processes(path):
                raise OSError(16, "busy")
            for each in Path(path).iterdir():
                each.unlink()
            rmdir(path)

        monkeypatch.setattr(memory_groups.os, "mkdir", make)
        monkeypatch.setattr(memory_groups.os, "rmdir", remove)
        monkeypatch.setattr(memory_groups, "_write", self.write)
        monkeypatch.setattr(memory_groups, "_moved", {})

    def processes(self, path=None):
        return Path(path or self.own, "cgroup.procs").read_text().split()

    def write(self, path, text):
        file = Path(path)
        if not file.exists() or file.name in self.deny:
            raise FileNotFoundError(path)
        if file.name == "cgroup.procs":
            for other in Path(self.root).rglob("cgroup.procs"):
                other.write_text("\n".join(p for p in other.read_text().split() if p != text))
            file.write_text("\n".join([*file.read_text().split(), text]))
        elif file.name == "cgroup.subtree_control":
            if text[0] == "+" and self.processes(file.parent):
                raise OSError(16, "busy")
            names = set(file.read_text().split())
            names = names | {text[1:]} if text[0] == "+" else names - {text[1:]}
            file.write_text(" ".join(sorted(names)))
        else:
            file.write_text(text)

    def children(self):
        return sorted(p.name for p in Path(self.own).iterdir() if p.is_dir())


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    return lambda **how: Kernel(tmp_path, monkeypatch, **how)


def test_where_children_have_the_controller_already(kernel):
    fake = kernel(given="memory")
    groups = MemoryGroups.make(LIMIT, fake.root)
    path = groups.add(0, 1)
    assert path == groups.path(0, 1)
    assert os.path.dirname(path) == fake.own
    assert Path(path, "memory.max").read_text() == str(LIMIT)
    assert Path(path, "memory.oom.group").read_text() == "1"
    assert fake.processes() == [str(os.getpid())]  # nobody was moved
    groups.add(1, 1)
    groups.close()
    assert fake.children() == []
    assert Path(fake.own, "cgroup.subtree_control").read_text() == "memory"


def test_who_is_alone_in_a_cgroup_makes_room_and_goes_back(kernel):
    fake = kernel()
    groups = MemoryGroups.make(LIMIT, fake.root)
    (child,) = fake.children()
    assert fake.processes() == []
    assert fake.processes(f"{fake.own}/{child}") == [str(os.getpid())]
    groups.add(0, 0)
    assert len(fake.children()) == 2
    groups.close()
    assert fake.children() == []
    assert fake.processes() == [str(os.getpid())]
    assert Path(fake.own, "cgroup.subtree_control").read_text() == ""


def test_two_groups_at_a_time_move_once(kernel):
    fake = kernel()
    first = MemoryGroups.make(LIMIT, fake.root)
    (child,) = fake.children()
    Path(fake.root, "proc/self/cgroup").write_text(f"0::/user/job/{child}\n")
    second = MemoryGroups.make(LIMIT, fake.root)
    assert os.path.dirname(second.add(0, 0)) == fake.own
    first.close()
    assert fake.processes() == []
    second.close()
    second.close()
    assert fake.processes() == [str(os.getpid())]
    assert fake.children() == []


def test_strangers_in_the_cgroup_are_left_alone(kernel):
    fake = kernel(pids=[os.getpid(), os.getppid()])
    assert MemoryGroups.make(LIMIT, fake.root) is None
    assert len(fake.processes()) == 2
    assert fake.children() == []
