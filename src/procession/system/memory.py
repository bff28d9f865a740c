"""Whether the kernel killed a rank because memory ran out.

Nothing here raises or leaves a file open. A root directory lets tests show another machine.
"""

from __future__ import annotations

from procession.system.cgroups import Cgroups, cgroups
from procession.system.files import field, read

MACHINE = "/proc/vmstat"
LEAST = 0.01  # of all memory: a rank with a smaller peak was hardly killed for that


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
        for source in (*_own(groups), MACHINE):
            count = kills(source, root)
            if count is not None:
                self.source, self._explained = source, count
                break
        sizes = (groups.memory(), field("/proc/meminfo", "MemTotal", root))
        self._least = LEAST * min((size for size in sizes if size), default=0)

    @property
    def whole_machine(self) -> bool:
        """Whether kills of all processes on this machine are counted, not only of ours."""
        return self.source == MACHINE

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


def kills(source: str, root: str = "/") -> int | None:
    """Read from one of the kernel's files how often it killed because memory ran out."""
    # Nothing else of it is parsed: the stop signal for the other ranks waits for this.
    _, found, rest = f"\n{read(source, root)}\n".partition("\noom_kill ")
    count = rest.partition("\n")[0].strip() if found else ""
    return int(count) if count.isdecimal() else None
