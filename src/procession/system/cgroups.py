"""The cgroups of this process, of version 2, and what they give it of the machine.

Also whether the kernel killed a rank because memory ran out. Read from /proc and /sys. What cannot
be read is None, or is left out; nothing leaves a file open. A root directory lets tests show
another machine. Cgroups of version 1 are not read.
"""

from __future__ import annotations

from procession.system.files import field, read
from procession.values.base import Value


class Cgroups(Value):
    """The cgroup of this process and those above it.

    paths: their directories, from that of this process up to the highest visible one; () if
    unknown. own: whether the first is that of this process; else it is not visible, and the mount
    point stands for it.
    """

    paths: tuple[str, ...] = ()
    own: bool = False
    root: str = "/"

    def _each(self, name: str) -> list[str]:
        return [text for path in self.paths if (text := read(f"{path}/{name}", self.root))]

    def cores(self) -> float | None:
        """Give the lowest CPU quota, in cores; None: there is none."""
        quotas = [text.split() for text in self._each("cpu.max")]
        return min((int(q) / int(p) for q, p in quotas if q.isdecimal()), default=None)

    def memory(self) -> int | None:
        """Give the lowest limit of memory, in bytes; None: there is none."""
        return min((int(t) for t in self._each("memory.max") if t.isdecimal()), default=None)


def cgroups(root: str = "/") -> Cgroups:
    """Find the cgroups of this process."""
    lines = (read("/proc/self/cgroup", root) or "").splitlines()
    path = next((line[3:].rstrip("/") for line in lines if line.startswith("0::")), None)
    for line in (read("/proc/self/mountinfo", root) or "").splitlines():
        left, _, right = line.partition(" - ")
        if path is None or not right.startswith("cgroup2 "):
            continue
        _, _, _, top, mounted, *_ = left.split()
        top = top.rstrip("/")  # the part of the tree that is mounted; a container sees only part
        below = path.removeprefix(top).split("/")
        own = (path == top or path.startswith(f"{top}/")) and ".." not in below
        found = [mounted]
        for word in below[1:] if own else ():
            found.insert(0, f"{found[0]}/{word}")
        return Cgroups(tuple(found), own, root)
    return Cgroups(root=root)


KILLS_OF_ALL = "/proc/vmstat"
LEAST_OF_A_RANK = 0.01  # of all memory: one with a smaller peak was hardly killed


class OomWatch:
    """Judges SIGKILLs from now on: make one before the ranks of an attempt start.

    The kernel counts its kills. The counter of this process's own cgroup is preferred, because only
    processes in that cgroup can raise it; otherwise that of the whole machine is used.

    source: the file with the counter; None: there is none, and every verdict is None.
    """

    def __init__(self, root: str = "/") -> None:
        self._root = root
        self.source: str | None = None
        self._explained = 0  # kills from before, and those that ended a rank that was judged
        groups = cgroups(root)
        # Where a cgroup has no memory controller, its processes count as those of the next above.
        own = [f"{path}/memory.events" for path in groups.paths] if groups.own else []
        for source in (*own, KILLS_OF_ALL):
            count = kills(source, root)
            if count is not None:
                self.source, self._explained = source, count
                break
        sizes = (groups.memory(), field("/proc/meminfo", "MemTotal", root))
        self._least = LEAST_OF_A_RANK * min((size for size in sizes if size), default=0)

    @property
    def whole_machine(self) -> bool:
        """Whether kills of all processes on this machine are counted, not only of ours."""
        return self.source == KILLS_OF_ALL

    def verdict(self, peak_memory: int | None) -> bool | None:
        """Tell whether a rank that SIGKILL has ended was probably killed because memory ran out.

        To be called once for each such rank that this program did not kill, when its death is
        noticed: one counted kill explains one death.

        peak_memory: the most memory that the rank had, in bytes; None: unknown. Gives False if the
        kernel counted no kill that is not explained yet, and None if nothing is known, or if there
        was a kill, but the rank was too small for it. The verdict may be wrong for a rank that has
        moved itself to another cgroup.
        """
        count = None if self.source is None else kills(self.source, self._root)
        if count is None:
            return None
        if count <= self._explained:
            return False
        if peak_memory is not None and peak_memory < self._least:
            return None
        self._explained += 1
        return True


def kills(source: str, root: str = "/") -> int | None:
    """Read from one of the kernel's files how often it killed because memory ran out."""
    # Nothing else of it is parsed: the stop signal for the other ranks waits for this.
    _, found, rest = f"\n{read(source, root)}\n".partition("\noom_kill ")
    count = rest.partition("\n")[0].strip() if found else ""
    return int(count) if count.isdecimal() else None
