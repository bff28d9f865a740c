"""Memory of a process that is forked often, in huge pages."""

import os
import platform
from pathlib import Path

import pytest

import procession
from seams.forkserver import Idle
from seams.system import hugepages
from support import run_python, until, write

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


@pytest.mark.usefixtures("possible")
def test_what_others_have_as_well_is_left_alone_unless_asked_for(tmp_path):
    source = (
        MADE
        + """
ask, tell = os.pipe()
if not os.fork():
    os.close(tell)
    os.read(ask, 1)
    os._exit(0)
alone = hugepages.gather()
print(alone < 16 << 20, hugepages.gather(shared=True) >= 60 << 20, intact())
os.close(tell)
os.wait()
"""
    )
    assert run_python(write(tmp_path / "main.py", source)).stdout == "True True True\n"


def test_what_the_administrator_forbids_is_not_done(tmp_path, monkeypatch):
    monkeypatch.setattr(hugepages, "SETTINGS", f"{tmp_path}/")
    (tmp_path / "enabled").write_text("always madvise [never]\n")
    (tmp_path / "hpage_pmd_size").write_text("2097152\n")
    assert list(hugepages.steps(shared=True)) == []


def test_a_system_without_huge_pages_is_none_to_fail_on(tmp_path, monkeypatch):
    monkeypatch.setattr(hugepages, "SETTINGS", f"{tmp_path}/missing/")
    assert hugepages.gather(shared=True) == 0


@pytest.mark.torch
@pytest.mark.usefixtures("possible")
def test_an_idle_forkserver_does_it():
    pytest.importorskip("torch")
    server, _ = procession.run(os.getppid, nproc=2, preload=["torch"])
    until(lambda: in_huge_pages(server) >= 32 << 10)
    assert procession.run(os.getppid, nproc=2, preload=["torch"]) == [server] * 2


def blocks():
    """Tell whether the large blocks of this rank lie where the kernel was asked for huge pages.

    How many it gives is its affair: it has none where memory is in pieces, and takes one apart
    when a rank writes to it.
    """
    import blocks

    asked, kilobytes = 0, 0
    for line in Path("/proc/self/smaps").read_text().splitlines():
        name, *values = line.split()
        if name == "Size:":
            kilobytes = int(values[0])
        elif name == "VmFlags:" and "hg" in values:  # MADV_HUGEPAGE, as man 5 proc has it
            asked += kilobytes
    return len(blocks.blocks), asked >= 80 << 10, os.environ.get("GLIBC_TUNABLES")


@pytest.fixture
def preloaded_blocks(tmp_path, monkeypatch):
    """Have 90 MB that the C library takes from the kernel; skip where it cannot ask for more."""
    name, version = platform.libc_ver()
    if name != "glibc" or tuple(map(int, version.split("."))) < (2, 35):
        pytest.skip("not glibc, or one before 2.35")
    if "[madvise]" not in Path(hugepages.SETTINGS, "enabled").read_text():
        pytest.skip("huge pages are for all programs here, or for none")
    (tmp_path / "blocks.py").write_text('blocks = [b"x" * n for n in range(4000, 14_000)]\n')
    monkeypatch.syspath_prepend(str(tmp_path))
    return {"nproc": 2, "preload": ["blocks"]}


def test_what_the_c_library_takes_is_in_huge_pages_at_once(preloaded_blocks):
    assert procession.run(blocks, **preloaded_blocks) == [(10_000, True, None)] * 2


def test_who_has_tuned_the_c_library_is_asked_for_no_more(preloaded_blocks, monkeypatch):
    tuned = "glibc.malloc.check=0"
    monkeypatch.setenv("GLIBC_TUNABLES", tuned)
    assert procession.run(blocks, **preloaded_blocks) == [(10_000, False, tuned)] * 2


def test_idle_work_gives_way_to_commands(monkeypatch):
    monkeypatch.setattr(hugepages, "steps", lambda: iter([1, 1]))
    idle = Idle()
    assert not idle.work()
    assert idle.patience(300) == 300
    idle.begin()
    assert 0 < idle.patience(None) < 1
    assert idle.work()
    assert idle.patience(300) == 0
    idle.end()
    assert idle.patience(300) == 300
    assert not idle.work()
    idle.begin()
    for _ in range(3):
        assert idle.work()
    assert not idle.work()
    assert idle.patience(None) is None
    idle.begin()  # nothing was imported since
    assert not idle.work()


def test_memory_is_gone_over_again_only_when_more_was_loaded(monkeypatch):
    gone_over = []
    monkeypatch.setattr(hugepages, "steps", lambda: iter(gone_over.append(1) or [1]))
    idle = Idle()
    for _ in range(3):  # three launches, which load nothing
        idle.begin()
        while idle.work():
            pass
        idle.end()
    assert len(gone_over) == 1
    idle.loaded()
    assert not idle.work()  # not before the group that it was loaded for is over
    idle.begin()
    while idle.work():
        pass
    assert len(gone_over) == 2


@pytest.mark.torch
@pytest.mark.usefixtures("possible")
def test_an_idle_forkserver_does_it_again_when_more_was_imported():
    pytest.importorskip("torch")
    (server,) = procession.run(os.getppid, nproc=1, preload=["sklearn.datasets"])
    until(lambda: in_huge_pages(server) >= 4 << 10)
    first = in_huge_pages(server)
    more = ["sklearn.datasets", "torch"]
    assert procession.run(os.getppid, nproc=1, preload=more) == [server]
    until(lambda: in_huge_pages(server) >= first + (20 << 10))
