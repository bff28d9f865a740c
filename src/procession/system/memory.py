"""Whether the kernel killed a rank for want of memory.

Nothing here raises or leaves a file open. What reads files takes a root directory, so that it can
be shown another machine.
"""

from __future__ import annotations

from procession.system.cgroups import Cgroups, cgroups
from procession.system.files import field, read

MACHINE = "/proc/vmstat"
LEAST = 0.01  # share of the memory that a rank had at its peak if want of memory was its end


class OomWatch:
    """Judges SIGKILLs from now on: make one before the ranks of an attempt start.

    It goes by a counter of the kernel. The one of this process's own cgroup is preferred, for only
    this process, its ranks and their neighbours there can raise it; without one it is that of the
    whole machine.

    source: the file that is gone by; None: there is none, and every verdict is None.
    """

    def __init__(self, root: str = "/") -> None:
        self._root = root
        self.source: str | None = None
        self._explained = 0  # kills that happened before, or that are the end of a judged rank
        groups = cgroups(root)
        for source in (*_own(groups), MACHINE):
            count = _count(source, root)
            if count is not None:
                self.source, self._explained = source, count
                break
        sizes = (groups.memory(), field("/proc/meminfo", "MemTotal", root))
        self._least = LEAST * min((size for size in sizes if size), default=0)

    @property
    def whole_machine(self) -> bool:
        """Whether kills of anybody's processes on this machine are counted, too."""
        return self.source == MACHINE

    def verdict(self, peak_memory: int | None) -> bool | None:
        """Tell whether a rank that SIGKILL has ended was probably killed for want of memory.

        To be called once for each such rank that this program did not kill, as its death is
        noticed; a kill explains one death.

        peak_memory: the most memory that the rank had, in bytes; None: unknown. Gives False if the
        kernel reports no kill that could be this one, and None if nothing is known, or if there was
        a kill, but the rank was too small for it. A rank that has moved itself to another cgroup is
        not judged rightly.
        """
        count = None if self.source is None else _count(self.source, self._root)
        if count is None:
            return None
        if count <= self._explained:
            return False
        if peak_memory is not None and peak_memory < self._least:
            return None
        self._explained += 1
        return True


def _own(groups: Cgroups) -> list[str]:
    """List the files that may count the kills in the own cgroup, best first."""
    controller = "memory" if "memory" in groups.paths else ""  # a machine has one of the two
    paths = groups.paths.get(controller, ())
    if not paths or controller in groups.hidden:
        return []
    if controller:
        return [f"{paths[0]}/memory.oom_control"]  # counts nothing of the cgroups below
    # Where a cgroup has no memory controller, its processes count as those of the next one above.
    return [f"{path}/memory.events" for path in paths]


def _count(source: str, root: str) -> int | None:
    for line in (read(source, root) or "").splitlines():
        name, _, value = line.partition(" ")
        if name == "oom_kill" and value.strip().isdecimal():
            return int(value)
    return None
