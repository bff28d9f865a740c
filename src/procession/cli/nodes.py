"""The number of this machine among several, and the address at which ranks meet.

The options are torchrun's. Each machine is given its number: ranks are numbered node rank times
ranks per node, where each has as many. Options by which machines find each other and agree on
numbers (c10d) are in `rendezvous_options`, which is asked first. Where no option gives the number,
it may come from the program that started this command, see `starters`.
"""

from __future__ import annotations

import os

from procession.cli.readers import is_number
from procession.cli.settings import Settings
from procession.cli.words import near
from procession.values.environment import Node
from procession.values.errors import SpecError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from procession.cli.starters import Started

BY_HAND = "write --nnodes COUNT --node-rank NUMBER --master-addr HOST --master-port PORT on each"
FINDERS = ("c10d", "etcd", "etcd-v2")
STATIC_PORT = 29500  # torchrun's
C10D_PORT = 29400
LOOPBACK = "127.0.0.1"
# Any of these means that the machines are numbered by hand; other options also go with mpirun.
NUMBERING = ("nnodes", "node_rank", "standalone", "local_addr", "rdzv_backend", "rdzv_endpoint")
POD = "JOB_COMPLETION_INDEX"  # the number of a pod, in an Indexed Job of Kubernetes


def read_node(s: Settings, *, torchrun: bool = False) -> tuple[Node, list[str]]:
    """Give the number of this machine and the address, and what is to be said. Raises SpecError.

    torchrun: as torchrun does, by its options alone.
    """
    if torchrun:
        node = _node(s, None, alone=True)
        notes: list[str] = []
        if node.count > 1 and not (s.said("master_addr") or s.said("rdzv_endpoint")):
            notes.append(
                f"no --master-addr: ranks of {node.count} machines are to meet at {node.address}, "
                "which is another machine for each of them [P417]"
            )
        return node, notes
    by_hand = any(s.said(name) for name in NUMBERING)
    if not by_hand or _lacks_number(s):
        from procession.cli.starters import read_started

        started = read_started(os.environ)
        if started is not None:
            if by_hand:
                _check_count(s, started)
            return _started(s, started)
    pod = None if s.said("node_rank") else os.environ.get(POD)
    return _node(s, pod), []


def _lacks_number(s: Settings) -> bool:
    """Tell whether there are several machines, and nothing says which of them this is."""
    return not s.said("node_rank") and not s.flag("standalone") and _nodes(s) > 1


def _check_count(s: Settings, started: Started) -> None:
    """Refuse a count of machines that is not what has started this command. Raises SpecError."""
    of_each = (
        f"{started.size} times, once for each rank"
        if started.per_rank
        else (f"on {started.machines} machines")
    )
    if started.per_rank or _nodes(s) != started.machines:
        raise SpecError(
            f"{s.where('nnodes')} says {_nodes(s)} machines, but {started.starter} has started "
            f"this command {of_each}: leave --nnodes out, or write --node-rank NUMBER, too"
        )


def _started(s: Settings, started: Started) -> tuple[Node, list[str]]:
    """Give the number and the address by the variables of mpirun, mpiexec or srun."""
    from procession.cli.starters import OWN

    _check_conf(s)
    address, port = s.text("master_addr") or os.environ.get("MASTER_ADDR", ""), 0
    if s.said("rdzv_endpoint"):
        address, port = endpoint(s, C10D_PORT)
    if not address and started.machines > 1:
        address = started.address
        if not address:
            raise SpecError(
                f"{started.starter} has started {started.size} of this command on "
                f"{started.machines} machines, but does not say where rank 0 is: write "
                f"--master-addr HOST, or set MASTER_ADDR; {OWN}"
            )
    address = address.strip("[]") or LOOPBACK
    port = port or _started_port(s) or started.port or STATIC_PORT
    role, run_id = s.text("role"), s.text("rdzv_id") or started.job or "none"
    said = f"by the variables of {started.starter} ({started.variable} and others)"
    meet = f"ranks meet at {address}:{port}; {OWN} [P414]"
    if not started.per_rank:
        node = Node(started.machine, started.machines, address, port, role, run_id)
        of = f"machine {started.machine} of {started.machines}"
        return node, [f"this is {of}, {said}; {meet}"]
    node = Node(
        started.machine,
        started.machines,
        address,
        port,
        role,
        run_id,
        number=started.rank,
        world=started.size,
        local=started.local,
        local_world=started.local_size,
        threads=started.cpus,
    )
    if started.local:
        return node, []  # the first process on each machine says it
    here = f", with {started.local_size} on this machine"
    return node, [f"this is rank {started.rank} of {started.size}{here}, {said}; {meet}"]


def _started_port(s: Settings) -> int:
    """Give the port that is said, 0 for none."""
    if s.said("master_port"):
        text, where = s.text("master_port"), s.where("master_port")
    else:
        text, where = os.environ.get("MASTER_PORT", ""), "MASTER_PORT"
    if text and not (is_number(text) and 0 < int(text) <= 65535):
        raise SpecError(f"{where} must be a port from 1 to 65535, not {text!r}")
    return int(text or 0)


def check_one_rank(s: Settings, node: Node, nproc: int) -> None:
    """Refuse several ranks where each rank has a launcher of its own. Raises SpecError."""
    if nproc != 1:
        count = s.where("nproc_per_node") if s.said("nproc_per_node") else "several programs"
        raise SpecError(
            f"{count}: this command was started {node.world} times, {node.local_world} of them on "
            f"this machine, once for each rank, and cannot have {nproc} ranks; leave it out, or "
            "start one command per machine (mpirun --map-by ppr:1:node, srun --ntasks-per-node=1), "
            "or write --nnodes 1 for a group of its own in each"
        )
    for name in ("numa_binding", "cpus_per_rank"):
        s.does_not_apply(
            name,
            "cannot be: each rank has a launcher of its own here, which cannot see what the others "
            "take; let who started them bind them: mpirun --bind-to, srun --cpu-bind",
        )


def _node(s: Settings, pod: str | None, *, alone: bool = False) -> Node:
    """Give the number and the address by options. pod: the number by Kubernetes, None if unknown.

    alone: several machines need no address, as under torchrun; it is then this machine's.
    """
    count = _nodes(s)
    if s.flag("standalone") and count > 1:
        if s.on_command_line("standalone") and not s.on_command_line("nnodes"):
            s.does_not_apply("nnodes", "does not go with --standalone, which is for one machine")
            count = 1
        else:
            s.does_not_apply(
                "standalone",
                f"is for one machine, but {s.where('nnodes')} says {count}; "
                f"for several machines, {BY_HAND}",
            )
    _check_conf(s)
    role = s.text("role")
    run_id = "" if s.flag("standalone") else s.text("rdzv_id")
    backend = s.text("rdzv_backend")
    if backend != "static" and backend not in FINDERS:
        meant = near(backend, ("static", *FINDERS))
        hint = f"; did you mean {meant}?" if meant else f"; for several machines, {BY_HAND}"
        raise SpecError(f"{s.where('rdzv_backend')}: there is no rendezvous {backend!r}{hint}")
    rank = _rank(s, count)
    if pod is not None and count > 1:
        return _pod(s, pod, count, role, run_id)
    if count == 1 and (s.flag("standalone") or backend != "static"):
        return Node(address=s.text("local_addr") or LOOPBACK, role=role, run_id=run_id)
    if rank >= count:
        raise SpecError(
            f"{s.where('node_rank')} is {rank}, but the machines are numbered 0 to {count - 1}: "
            f"{s.where('nnodes')} says how many there are"
        )
    if backend != "static" and not (s.said("node_rank") and s.said("rdzv_endpoint")):
        raise SpecError(
            f"{s.where('rdzv_backend')} {backend} over {count} machines would number them by "
            f"itself, which procession does not; {BY_HAND}"
        )
    if count > 1 and not alone and not (s.said("master_addr") or s.said("rdzv_endpoint")):
        raise SpecError(
            f"{s.where('nnodes')} says {count} machines, but not where ranks meet: write "
            f"--master-addr HOST, the address of machine 0 (or 127.0.0.1, if all are this one)"
        )
    address, port = _meeting(s, count, C10D_PORT if backend != "static" else None)
    return Node(rank, count, address, port, role, run_id or ("none" if count > 1 else ""))


def _rank(s: Settings, count: int) -> int:
    """Give the number of this machine by the option; 0 where it is not said."""
    if not s.said("node_rank"):
        return 0
    rank = _number(s, "node_rank", "a number of 0 or more")
    if rank and count == 1 and not s.on_command_line("node_rank"):
        s.does_not_apply("node_rank", f"is {rank}, and this run is on one machine")
        return 0
    return rank


def _pod(s: Settings, pod: str, count: int, role: str, run_id: str) -> Node:
    """Give the number and the address of a pod of an Indexed Job."""
    if not is_number(pod) or int(pod) >= count:
        raise SpecError(
            f"{POD} is {pod!r}, but {s.where('nnodes')} says {count} machines, numbered 0 to "
            f"{count - 1}: let it be the Job's completions, or say --node-rank"
        )
    if s.said("rdzv_endpoint"):
        address, port = endpoint(s, C10D_PORT)
    else:
        address = (s.text("master_addr") or os.environ.get("MASTER_ADDR", "")).strip("[]")
        port = _started_port(s) or STATIC_PORT
    if not address:
        raise SpecError(
            f"this is pod {pod} of {count}, and each has an address of its own: write "
            "--master-addr POD.SERVICE, or set MASTER_ADDR, where POD is the name of pod 0 and "
            "SERVICE that of its headless service"
        )
    return Node(int(pod), count, address, port, role, run_id or "none")


def node_range(s: Settings) -> tuple[int, int]:
    """Give how many machines take part, at least and at most. Raises SpecError."""
    text = s.text("nnodes")
    least, colon, most = text.partition(":")
    if not is_number(least) or (colon and not is_number(most)):
        raise SpecError(f"{s.where('nnodes')} must be a count of machines, not {text!r}")
    low, high = int(least), int(most or least)
    if low >= 1 and high < low:
        raise SpecError(
            f"{s.where('nnodes')} must be LEAST:MOST, the smaller count first, not {text!r}"
        )
    if low < 1:
        raise SpecError(f"{s.where('nnodes')} must be a count of 1 or more, not {text!r}")
    return low, high


def _nodes(s: Settings) -> int:
    low, high = node_range(s)
    if low != high:
        raise SpecError(
            f"{s.where('nnodes')} {s.text('nnodes')}: a range is for machines that find each "
            "other; write --rdzv-backend c10d --rdzv-endpoint HOST:PORT on each"
        )
    return high


def _meeting(s: Settings, count: int, default_port: int | None) -> tuple[str, int]:
    """Give the address and the port at which ranks meet."""
    if s.said("rdzv_endpoint"):
        return endpoint(s, default_port)
    if not s.said("master_port") and count == 1:
        return s.text("local_addr") or LOOPBACK, 0  # only this launcher needs to know the port
    address = s.text("master_addr") or LOOPBACK
    if not s.said("master_port"):
        return address.strip("[]"), STATIC_PORT
    port = _number(s, "master_port", "a port from 1 to 65535")
    if port > 65535 or (port == 0 and count > 1):
        raise SpecError(f"{s.where('master_port')} must be a port from 1 to 65535, not {port}")
    return address.strip("[]"), port


def endpoint(s: Settings, default_port: int | None) -> tuple[str, int]:
    """Give the host and the port of --rdzv-endpoint. Raises SpecError."""
    text = s.text("rdzv_endpoint").strip()
    host, colon, port = text.rpartition(":")
    if not colon and default_port is not None:
        host, port = text, str(default_port)
    closed = host.startswith("[") == host.endswith("]")
    if ":" in host and "[" not in text:
        raise SpecError(
            f"{s.where('rdzv_endpoint')} must be HOST:PORT, an IPv6 address in brackets, as in "
            f"[::1]:{default_port or 29400}, not {text!r}"
        )
    if not host or not closed or not is_number(port) or not 0 < int(port) <= 65535:
        raise SpecError(
            f"{s.where('rdzv_endpoint')} must be HOST:PORT, with a port from 1 to 65535, "
            f"not {text!r}"
        )
    return host.strip("[]"), int(port)


def _check_conf(s: Settings) -> None:
    text = s.text("rdzv_conf").strip()
    for part in text.split(",") if text else ():
        name, equals, value = part.partition("=")
        if not name.strip() or not equals or not value.strip():
            raise SpecError(
                f"{s.where('rdzv_conf')} must be NAME=VALUE,NAME=VALUE,..., not {text!r}"
            )


def _number(s: Settings, name: str, what: str) -> int:
    text = s.text(name)
    if not is_number(text):
        raise SpecError(f"{s.where(name)} must be {what}, not {text!r}")
    return int(text)
