"""Lists of hosts: the words of `--hosts`, and host files.

A host is named as ssh takes it: a name of its configuration, an address, either with `user@` in
front. A count says how many ranks the host has room for:

    h1,h2:8,user@h3,[::1]:4       --hosts
    h1                            a line for each rank: PBS, LSF ($PBS_NODEFILE, $LSB_DJOB_HOSTFILE)
    h1 slots=8 max_slots=16       Open MPI
    h1:8                          MPICH
    h1 8 all.q@h1 UNDEFINED       SGE's $PE_HOSTFILE

A host that is named several times has the sum of its counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from procession.values.base import Value
from procession.values.errors import SpecError

# Host files that a batch system names in its jobs' environment.
FILES = ("PBS_NODEFILE", "LSB_DJOB_HOSTFILE", "PE_HOSTFILE")
MOST = 1 << 20  # bytes of a host file
NAME = re.compile(r"(?:[\w.+-]+@)?(?:\[[0-9A-Fa-f:.%\w]+\]|[\w.-]+)(?::(\d+))?")


class Host(Value):
    """A machine. name: as ssh takes it. ranks: how many it has room for, 0 if that was not said."""

    name: str
    ranks: int = 0


def parse_hosts(text: str, said: str = "--hosts") -> tuple[Host, ...]:
    """Read a list with commas. said: where it comes from, for messages. Raises SpecError."""
    words = [word.strip() for word in text.split(",")]
    return _merged((_host(word, f"{said} {text!r}") for word in words if word), said)


def parse_hostfile(text: str, said: str) -> tuple[Host, ...]:
    """Read a host file. said: where it comes from, for messages. Raises SpecError."""
    found: list[Host] = []
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        where = f"{said}, line {number}"
        host = _host(words[0], where)
        if words[1:] and not words[1].isdecimal() and "=" not in words[1]:
            raise SpecError(f"{where}: {words[1]!r} is no count of ranks; write one host in a line")
        slots = [word.removeprefix("slots=") for word in words[1:] if word.startswith("slots=")]
        count = slots[0] if slots else words[1] if words[1:] and words[1].isdecimal() else ""
        if count:
            host = Host(host.name, _count(count, where))
        # Whether a bare line stands for one rank, `_merged` decides.
        found.append(host)
    return _merged(found, said)


def read_hosts(hosts: str, hostfile: str, env: Mapping[str, str]) -> tuple[Host, ...]:
    """Give the hosts of a list, of a file, or of the file that a batch system names.

    Raises SpecError if there are none, or both are given.
    """
    if hosts and hostfile:
        raise SpecError("--hosts and --hostfile cannot go together: give one of them")
    if hosts:
        return parse_hosts(hosts)
    named = "--hostfile"
    if not hostfile:
        named = next((name for name in FILES if env.get(name)), "")
        if not named:
            raise SpecError(
                "--engine ssh: on which hosts? Say --hosts h1,h2 or --hostfile FILE (none of "
                f"{', '.join(FILES)} is set)"
            )
        hostfile = env[named]
    try:
        with open(hostfile, encoding="utf-8") as f:
            text = f.read(MOST + 1)
    except (OSError, UnicodeDecodeError) as e:
        why = e.strerror if isinstance(e, OSError) else "it is not text"
        raise SpecError(f"{named}: cannot read {hostfile!r}: {why}") from None
    if len(text) > MOST:
        raise SpecError(f"{named} {hostfile} is no list of hosts: it is longer than {MOST} bytes")
    return parse_hostfile(text, f"{named} {hostfile}")


def ranks_of_each(hosts: Iterable[Host]) -> int:
    """Give how many ranks each host has room for, 0 if that was not said.

    Raises SpecError where hosts differ: all nodes of a job have equally many ranks.
    """
    hosts = tuple(hosts)
    counts = sorted({host.ranks for host in hosts})
    if len(counts) > 1:
        few, many = (next(h for h in hosts if h.ranks == c) for c in (counts[0], counts[-1]))
        raise SpecError(
            f"hosts have room for different numbers of ranks ({few.name}: "
            f"{few.ranks or 'not said'}, {many.name}: {many.ranks}), and each node of a job has "
            "equally many: say how many with -n"
        )
    return counts[0]


def check_spares(hosts: int, nodes: int | None, spares: int) -> int:
    """Give how many nodes there are, where so many hosts are given. Raises SpecError."""
    if nodes is None:
        nodes = hosts - spares
        if nodes < 1:
            raise SpecError(f"{spares} spare nodes of {hosts} hosts leave none for ranks")
    if nodes + spares > hosts:
        more = f" and {spares} spare ones" if spares else ""
        raise SpecError(f"{nodes} nodes{more} are asked for, but the number of hosts is {hosts}")
    return nodes


def _host(word: str, where: str) -> Host:
    match = NAME.fullmatch(word)
    if match is None or word.startswith("-"):
        raise SpecError(f"{where}: {word!r} is no host; write HOST, USER@HOST or HOST:RANKS")
    if match[1] is None:
        return Host(word)
    return Host(word[: match.start(1) - 1], _count(match[1], where))


def _count(text: str, where: str) -> int:
    if not text.isdecimal() or len(text) > 6 or not int(text):
        raise SpecError(f"{where}: {text!r} is no count of ranks (1 or more)")
    return int(text)


def _merged(hosts: Iterable[Host], said: str) -> tuple[Host, ...]:
    found: dict[str, list[int]] = {}
    for host in hosts:
        found.setdefault(host.name, []).append(host.ranks)
    if not found:
        raise SpecError(f"{said} names no host")
    # If a name is repeated, each line is one rank; a list of different names gives no counts.
    listed = any(len(counts) > 1 for counts in found.values())
    return tuple(
        Host(name, sum(c or int(listed) for c in counts)) for name, counts in found.items()
    )
