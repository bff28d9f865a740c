"""Huge pages for the memory of a process that is forked often. Standard library only.

Theory of operation. A fork copies the entry of each page, and each page that the fork then writes
to makes a fault: with torch imported, 37,000 entries. Where 512 small pages are one huge page, one
entry is copied instead; a huge page of which a fork changes a part is mapped by small pages again
there, for that fork alone. Linux 6.1 puts the small pages of a range together when it is asked to
(`MADV_COLLAPSE`, madvise(2)); older ones refuse, and nothing changes.

Only ranges that are nearly full are put together, so memory hardly grows. A page that another
process has as well would be copied: such ranges are left alone, unless `shared` is set.

What the administrator has forbidden ("never" in /sys/kernel/mm/transparent_hugepage/enabled) is not
done, though the call would allow it.

What the C library takes is in huge pages from the beginning, where it can do that (see
`shown.TUNABLES`). What is put together here is the rest: the arenas of Python's own allocator.

Rejected: `MADV_HUGEPAGE` before that memory is used (Python's allocator does not offer that place
to us); a thread that does this while torch is imported (the import takes longer, since both change
the same tables, by more than the first 16 forks gain).
"""

from __future__ import annotations

import ctypes
import os

TYPE_CHECKING = False  # `typing` takes 7 ms to import, which every launch would pay
if TYPE_CHECKING:
    from collections.abc import Iterator

SETTINGS = "/sys/kernel/mm/transparent_hugepage/"
MADV_COLLAPSE = 25
FULL = 3 / 4  # of the small pages of a range, which are to be there
LEAST_BYTES = 16 << 20  # below which a fork is quick enough
STEP = 8  # huge pages in one call: some milliseconds
# The highest byte of an entry of /proc/self/pagemap: bit 63, the page is there; 56, nobody has it
# but this process (https://docs.kernel.org/admin-guide/mm/pagemap.html).
OWN, SHARED = 0x81, 0x80

_madvise = ctypes.CDLL(None, use_errno=True).madvise
_madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


def gather(*, shared: bool = False) -> int:
    """Put small pages of this process together; gives how many bytes now lie in huge ones.

    shared: also those that other processes have, which copies them.
    """
    return sum(steps(shared=shared))


def steps(*, shared: bool = False) -> Iterator[int]:
    """Do it step by step, each a few milliseconds long; gives the bytes of each.

    What is looked for is known at the first step. Nothing is raised: it is an advice.
    """
    try:
        size = _size()
        found = _ranges(size, shared=shared) if size else []
    except (OSError, ValueError):
        return
    if sum(length for _, length in found) < LEAST_BYTES:
        return
    for start, length in found:
        for at in range(start, start + length, STEP * size):
            part = min(STEP * size, start + length - at)
            if _madvise(at, part, MADV_COLLAPSE) == 0:
                yield part


def _size() -> int:
    """Give the size of a huge page in bytes; 0 where they must not be used."""
    with open(f"{SETTINGS}enabled") as f:
        if "[never]" in f.read():
            return 0
    with open(f"{SETTINGS}hpage_pmd_size") as f:
        return int(f.read())


def _ranges(size: int, *, shared: bool) -> list[tuple[int, int]]:
    """List the address and the length of what is worth it: whole huge pages, one after another."""
    page = os.sysconf("SC_PAGESIZE")
    each = size // page
    found: list[tuple[int, int]] = []
    with open("/proc/self/maps") as maps, open("/proc/self/pagemap", "rb", buffering=0) as pagemap:
        for line in maps:
            where, rights, _, _, inode, *name = line.split()
            if rights != "rw-p" or inode != "0" or name[:1] in (["[stack]"], ["[vvar]"]):
                continue
            begin, end = (int(word, 16) for word in where.split("-"))
            begin, end = -(-begin // size) * size, end // size * size
            if begin >= end:
                continue
            entries = os.pread(pagemap.fileno(), (end - begin) // page * 8, begin // page * 8)
            kinds = entries[7::8]  # in the byte order of all machines that have huge pages here
            for n in range((end - begin) // size):
                part = kinds[n * each : (n + 1) * each]
                there = part.count(OWN) + (part.count(SHARED) if shared else 0)
                if there < FULL * each:
                    continue
                start = begin + n * size
                if found and sum(found[-1]) == start:
                    found[-1] = (found[-1][0], found[-1][1] + size)
                else:
                    found.append((start, size))
    return found
