"""The cgroups of this process, of both versions, and what they give it of the machine.

Also whether the kernel killed a rank because memory ran out. Read from /proc and /sys. What cannot
be read is None, or is left out; nothing leaves a file open. A root directory lets tests show
another machine.
"""

from __future__ import annotations

from procession.system.files import field, read
from procession.values.base import Value

UNLIMITED = 1 << 60  # version 1 says "no limit" with a number near 2**63


class Cgroups(Value):
    """The cgroups of this process.

    version: "1", "2", "1 and 2", or None if unknown. paths: by controller for version 1, and by ""
    for version 2: directories, from that of this process up to the highest visible one. hidden:
    controllers whose directory of this process is not visible; the mount point stands for it.
    """

    version: str | None
    paths: dict[str, tuple[str, ...]]
    root: str = "/"
    hidden: frozenset[str] = frozenset()

    def _each(self, controller: str, name: str) -> list[str]:
        paths = (*self.paths.get("", ()), *self.paths.get(controller, ()))
        texts = [read(f"{path}/{name}", self.root) for path in paths]
        return [text for text in texts if text]

    def limit(self, controller: str, *names: str) -> int | None:
        """Give the lowest limit in files of these names; None: there is none."""
        found = [int(t) for n in names for t in self._each(controller, n) if t.isdecimal()]
        return min((limit for limit in found if limit < UNLIMITED), default=None)

    def cores(self) -> float | None:
        """Give the lowest CPU quota, in cores; None: there is none."""
        quotas = [t.split() for t in self._each("cpu", "cpu.max")]
        quotas += [
            [q, p]
            for path in self.paths.get("cpu", ())
            if (q := read(f"{path}/cpu.cfs_quota_us", self.root))
            and (p := read(f"{path}/cpu.cfs_period_us", self.root))
        ]
        pairs = [pair for pair in quotas if len(pair) == 2 and all(w.isdecimal() for w in pair)]
        return min((int(q) / int(p) for q, p in pairs if int(q) and int(p)), default=None)

    def memory(self) -> int | None:
        """Give the lowest limit of memory, in bytes; None: there is none."""
        return self.limit("memory", "memory.max", "memory.limit_in_bytes")


def cgroups(root: str = "/") -> Cgroups:
    """Find the cgroups of this process."""
    mounts: dict[
        str, tuple[str, str]
    ] = {}  # controller -> the part of its tree that is mounted, and where
    for line in (read("/proc/self/mountinfo", root) or "").splitlines():
        left, _, right = line.partition(" - ")
        mount, kind = left.split(), right.split()
        if len(mount) < 5 or len(kind) < 3 or not kind[0].startswith("cgroup"):
            continue
        for controller in [""] if kind[0] == "cgroup2" else kind[2].split(","):
            mounts.setdefault(controller, (mount[3].rstrip("/"), mount[4]))
    paths: dict[str, tuple[str, ...]] = {}
    hidden: set[str] = set()
    for line in (read("/proc/self/cgroup", root) or "").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        for controller in controllers.split(","):
            if controller not in mounts:
                continue
            top, mounted = mounts[controller]
            below = _below(path.rstrip("/"), top)
            if below is None:
                hidden.add(controller)
            paths[controller] = _upwards(mounted, below or "")
    real = {"2" if c == "" else "1" for c in paths if not c.startswith("name=")}
    return Cgroups(" and ".join(sorted(real)) or None, paths, root, frozenset(hidden))


def _below(path: str, top: str) -> str | None:
    """Give the part of a cgroup's path that is below what is mounted; None: it is elsewhere."""
    if path != top and not path.startswith(f"{top}/"):
        return None
    below = path[len(top) :]
    return None if ".." in below.split("/") else below  # a container sees only part of the tree


def _upwards(mounted: str, below: str) -> tuple[str, ...]:
    found = [mounted]
    for word in below.split("/")[1:]:
        found.insert(0, f"{found[0]}/{word}")
    return tuple(found)


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
        for source in (*_own(groups), KILLS_OF_ALL):
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
