"""Where ranks run, and with how much of the machine: a policy like those of `policy`."""

from __future__ import annotations

import os

from procession.values.base import Value, cast, check_fields, is_count, is_natural, none_or
from procession.values.errors import SpecError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MODES = ("node", "socket", "exclusive", "core-complex")
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
# Not data, which is memory_limit's, nor what has no effect on Linux.
ULIMITS = ("as", "core", "cpu", "fsize", "memlock", "msgqueue", "nofile", "nproc", "rtprio",
           "rttime", "sigpending", "stack")  # fmt: skip
LEAST_MEMORY = 1 << 20  # no process gets as far as its program with less


class Placement(Value):
    """The CPUs, the priority and the memory of each rank.

    numa: "node" (all CPUs of the rank's NUMA node), "socket" (all of that node's socket),
        "exclusive" (a share of the node's cores that no other rank has) or "core-complex" (those
        that share one last-level cache, a different one for each rank as long as there are some);
        as torchrun's --numa-binding. A rank's node is that of its GPU, if it has one; else ranks
        are distributed over the nodes in turn. None: where this process may run.
    cpus_per_rank: so many CPUs for each rank that no other rank has, one of each core where there
        are enough cores. None: no CPUs of its own. Not together with `numa`.
    nice: what is added to this process's niceness, from -20 to 19; more is less urgent.
    memory_limit: the most memory that a rank and what it starts may use together, in bytes, or as
        text with K, M, G or T for powers of 1024, such as "4G"; by a cgroup if one can be made,
        else by RLIMIT_DATA for each process. None: no limit.
    ulimits: soft limits of each process of a rank, by the names of `prlimit`, such as
        {"nofile": 65536, "core": -1}; -1: unlimited. The hard limits stay as they are.
    """

    numa: str | None = None
    cpus_per_rank: int | None = None
    nice: int = 0
    memory_limit: int | str | None = None
    ulimits: dict[str, int] | None = None

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

    def check(self, nproc: int) -> None:
        """Raise ValueError for what a group of `nproc` ranks cannot have here."""
        check_fields(
            self,
            "",
            ("numa", (None, *MODES).__contains__, f"one of {', '.join(MODES)}"),
            ("cpus_per_rank", none_or(lambda n: is_natural(n) and n > 0), "a count of 1 or more"),
            ("nice", lambda n: type(n) is int and -20 <= n <= 19, "a number from -20 to 19"),
            ("memory_limit", none_or(lambda m: type(m) in (int, str)), "a size such as '4G'"),
            ("ulimits", none_or(_are_ulimits), f"limits by name ({', '.join(ULIMITS)})"),
        )
        count = self.cpus_per_rank
        if count is not None and self.numa is not None:
            raise ValueError("numa and cpus_per_rank both say where ranks run: give one")
        if count is not None and count * nproc > (there := len(os.sched_getaffinity(0))):
            raise ValueError(
                f"{nproc} ranks with {count} CPUs each need {count * nproc}, "
                f"but this process may use {there}"
            )
        size = self.memory_bytes
        if size is not None and size < LEAST_MEMORY:
            raise ValueError(
                f"memory_limit: {self.memory_limit!r} is less than a program needs to start"
            )

    def check_here(self) -> None:
        """Raise SpecError for a limit that this process cannot give to its ranks."""
        if not self.ulimits:
            return
        import resource

        for name, value in self.ulimits.items():
            hard = resource.getrlimit(getattr(resource, f"RLIMIT_{name.upper()}"))[1]
            if hard != -1 and not 0 <= value <= hard:
                raise SpecError(f"ulimits: {name} must be at most {hard}, its hard limit here")


def _are_ulimits(given: Any) -> bool:
    return type(given) is dict and all(
        name in ULIMITS and type(value) is int and -1 <= value < 1 << 63
        for name, value in cast("dict[Any, Any]", given).items()
    )


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


def read_ulimits(text: str, where: str) -> dict[str, int]:
    """Read `nofile=65536,core=unlimited`. where: what says so. Raises SpecError."""
    pairs = [word.split("=", 1) for word in text.split(",")]
    if not all(pair[-1] == "unlimited" or is_count(pair[-1], 18) for pair in pairs):
        raise SpecError(f"{where} must be like nofile=65536,core=unlimited, not {text!r}")
    return {pair[0]: -1 if pair[-1] == "unlimited" else int(pair[-1]) for pair in pairs}
