"""Whether a rank that SIGKILL has ended was killed for want of memory, on made-up machines."""

import pytest

from seams.system import OomWatch
from support import write

GIB = 1 << 30
MOUNT = "/sys/fs/cgroup"
V2 = "30 23 0:26 {} /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
EVENTS = "low 0\nhigh 0\nmax 9\noom 7\noom_kill {}\noom_group_kill 5\n"
VMSTAT = "nr_free_pages 77\ndrop_slab 0\noom_kill {}\nnuma_pte_updates 3\n"


class Machine:
    """A directory that looks like a machine with 64 GiB, of which this test says who was killed."""

    def __init__(self, root):
        self.root = root
        self.put("/proc/meminfo", f"MemTotal:       {64 << 20} kB\nMemFree: 12 kB\n")

    def put(self, path, text):
        write(self.root / path.lstrip("/"), text)

    def machine(self, kills):
        self.put("/proc/vmstat", VMSTAT.format(kills))

    def version2(self, path="/", top="/", **events):
        """Be in a cgroup of version 2. events: kills by the last word of a cgroup's path."""
        self.put("/proc/self/cgroup", f"0::{path}\n")
        self.put("/proc/self/mountinfo", V2.format(top))
        words = path.strip("/").split("/")
        for name, kills in events.items():
            place = "/".join(words[: words.index(name) + 1]) if name != "root" else ""
            self.put(f"{MOUNT}/{place}/memory.events", EVENTS.format(kills))

    def watch(self):
        return OomWatch(str(self.root))


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def test_a_kill_explains_one_death(machine):
    machine.version2("/job", job=3)
    watch = machine.watch()
    machine.version2("/job", job=4)
    assert [watch.verdict(GIB) for _ in range(3)] == [True, False, False]


@pytest.mark.parametrize(("share", "verdict"), [(0.009, None), (0.011, True)])
def test_a_rank_too_small_for_the_machine(machine, share, verdict):
    machine.machine(0)
    watch = machine.watch()
    machine.machine(1)
    assert watch.verdict(int(share * 64 * GIB)) is verdict


@pytest.mark.parametrize(("peak", "verdict"), [(GIB // 128, None), (GIB // 64, True)])
def test_a_rank_too_small_for_the_limit_of_its_cgroup(machine, peak, verdict):
    machine.version2("/slice/job", job=0)
    machine.put(f"{MOUNT}/slice/memory.max", f"{GIB}\n")
    watch = machine.watch()
    machine.version2("/slice/job", job=1)
    assert watch.verdict(peak) is verdict


def test_others_are_killed(machine):
    machine.version2("/slice/job", job=0, slice=0)
    machine.machine(0)
    watch = machine.watch()
    machine.version2("/slice/job", job=0, slice=6)
    machine.machine(9)
    assert not watch.whole_machine
    assert watch.verdict(GIB) is False


@pytest.mark.parametrize("path", ["/../other", "/elsewhere"])
def test_the_own_cgroup_cannot_be_seen(machine, path):
    machine.put("/proc/self/cgroup", f"0::{path}\n")
    machine.put("/proc/self/mountinfo", V2.format("/docker"))
    machine.put(f"{MOUNT}/memory.events", EVENTS.format(0))
    machine.machine(0)
    watch = machine.watch()
    machine.machine(1)
    assert watch.whole_machine
    assert watch.verdict(GIB) is True
