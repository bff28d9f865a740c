"""Memory of a process that is forked often, in huge pages."""

import os
from pathlib import Path

import pytest

import procession
from support import require, run_python, until, write

MADE = """
import mmap, os
from procession.system import hugepages

size = 64 << 20
memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
memory.madvise(mmap.MADV_NOHUGEPAGE)  # so that they are small to begin with
for at in range(0, size, 4096):
    memory[at : at + 8] = at.to_bytes(8, "big")
memory.madvise(mmap.MADV_HUGEPAGE)

def intact():
    return all(memory[at : at + 8] == at.to_bytes(8, "big") for at in range(0, size, 4096))
"""


def in_huge_pages(pid):
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("AnonHugePages")))


def in_large_pieces():
    """Bytes of free memory of which huge pages can be made at once (man 5 proc, buddyinfo)."""
    zones = [line.split()[4:] for line in Path("/proc/buddyinfo").read_text().splitlines()]
    huge = 9  # 2 ** 9 pages of 4 KiB
    return sum(
        int(n) * (4096 << order) for zone in zones for order, n in enumerate(zone[huge:], huge)
    )


@pytest.fixture
def possible(tmp_path):
    """Skip where the kernel does not put pages together."""
    done = run_python(write(tmp_path / "try.py", MADE + "print(hugepages.gather())"))
    if done.stdout == "0\n":
        pytest.skip("this kernel does not put small pages together (Linux 6.1, not in all VMs)")
    if int(done.stdout) < 60 << 20 and in_large_pieces() < 256 << 20:
        pytest.skip("there is no room for huge pages: the memory of this machine is in pieces")
    assert int(done.stdout) >= 60 << 20


@pytest.mark.usefixtures("possible")
def test_what_is_in_memory_stays(tmp_path):
    source = MADE + "hugepages.gather(); print(intact())"
    assert run_python(write(tmp_path / "main.py", source)).stdout == "True\n"


@pytest.mark.long
@pytest.mark.torch
@pytest.mark.usefixtures("possible")
def test_an_idle_forkserver_does_it():
    require("torch")
    server, _ = procession.run(os.getppid, nproc=2, preload=["torch"])
    until(lambda: in_huge_pages(server) >= 32 << 10)
    assert procession.run(os.getppid, nproc=2, preload=["torch"]) == [server] * 2
