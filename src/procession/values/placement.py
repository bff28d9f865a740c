"""Where ranks run, and with how much of the machine: a policy like those of `policy`."""

from __future__ import annotations

from procession.values.base import Value, check_fields, is_natural, none_or

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MODES = ("node", "socket", "exclusive", "core-complex")
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
LEAST_MEMORY = 1 << 20  # no process gets as far as its program with less


class Placement(Value):
    """The CPUs and the memory of each rank.

    numa: as torchrun's --numa-binding: "node" (all CPUs of the NUMA node of the rank), "socket" (of
        its socket), "exclusive" (a share of the node's cores) or "core-complex" (the cores of one
        last-level cache). The node of a rank is that of its GPU; without a GPU, ranks are
        distributed over the nodes. None: no binding.
    cpus_per_rank: the number of CPUs for each rank that no other rank uses. Not together with
        `numa`. None: no binding.
    memory_limit: the most memory of a rank with its children, in bytes, or as a text with K, M, G
        or T for powers of 1024, such as "4G". By a cgroup if possible, else by RLIMIT_DATA for each
        process. None: no limit.
    """

    numa: str | None = None
    cpus_per_rank: int | None = None
    memory_limit: int | str | None = None

    @property
    def memory_bytes(self) -> int | None:
        """The limit of memory in bytes, None for none. Raises ValueError."""
        limit = self.memory_limit
        return read_size(limit) if isinstance(limit, str) else limit

    @property
    def given(self) -> dict[str, Any]:
        """The fields that ask for something, by name; ranks get them as they are."""
        return {name: value for name, value in vars(self).items() if value}

    @property
    def chooses_cpus(self) -> bool:
        """Whether it says on which CPUs ranks run."""
        return self.numa is not None or self.cpus_per_rank is not None

    def check(self, _nproc: int = 1) -> None:
        """Raise ValueError for what no group can have; for too few CPUs, `cpusets.deal` does."""
        check_fields(
            self,
            "",
            ("numa", (None, *MODES).__contains__, f"one of {', '.join(MODES)}"),
            ("cpus_per_rank", none_or(lambda n: is_natural(n) and n > 0), "a count of 1 or more"),
            ("memory_limit", none_or(lambda m: type(m) in (int, str)), "a size such as '4G'"),
        )
        count = self.cpus_per_rank
        if count is not None and self.numa is not None:
            raise ValueError("numa and cpus_per_rank both say where ranks run: give one")
        size = self.memory_bytes
        if size is not None and size < LEAST_MEMORY:
            raise ValueError(f"memory_limit: {self.memory_limit!r} is less than a program needs")


def read_size(text: str) -> int:
    """Read `4G`, `1.5G`, `512MiB` or a number of bytes. Raises ValueError."""
    import re

    found = re.fullmatch(r"([0-9]+\.?[0-9]*|\.[0-9]+) *([KMGT]?)(?:I?B)?", text.strip().upper())
    size = float(found[1]) * UNITS[found[2]] if found else 0.0
    if not 0 < size < 1 << 60:
        raise ValueError(
            f"memory_limit: {text!r} is not a size, such as 4G, 512M, or a count of bytes"
        )
    return int(size)
