"""Where a group stands among several machines, and where its ranks meet: torchrun's options.

Ranks are numbered by hand: node rank times ranks per node. So what decides that only when machines
have found each other (c10d and etcd over several of them, a range of nodes) is refused. Where no
option says a number, what has started this command may tell it, see `starters`.
"""

from __future__ import annotations

import os

from procession.cli.parser import near
from procession.cli.parts import is_number
from procession.cli.settings import Settings
from procession.errors import SpecError
from procession.rankenv import Node

TYPE_CHECKING = False
if TYPE_CHECKING:
    from procession.cli.starters import Started

BY_HAND = "write --nnodes COUNT --node-rank NUMBER --master-addr HOST --master-port PORT on each"
FINDERS = ("c10d", "etcd", "etcd-v2")
STATIC_PORT = 29500  # torchrun's
C10D_PORT = 29400
LOOPBACK = "127.0.0.1"
# Who says one of these has numbered the machines; the others may be said under mpirun and srun.
NUMBERING = ("nnodes", "node_rank", "standalone", "local_addr", "rdzv_backend", "rdzv_endpoint")
POD = "JOB_COMPLETION_INDEX"  # the number of a pod, in an Indexed Job of Kubernetes


def read_node(s: Settings, *, torchrun: bool = False) -> tuple[Node, list[str]]:
    """Give this group's place, and what is to be said about it. Raises SpecError.

    torchrun: as torchrun does, which asks nothing but its options.
    """
    if torchrun:
        return _node(s, None), []
    if not any(s.said(name) for name in NUMBERING):
        from procession.cli.starters import read_started

        started = read_started(os.environ)
        if started is not None:
            return _started(s, started)
    pod = None if s.said("node_rank") else os.environ.get(POD)
    return _node(s, pod), []


def _started(s: Settings, started: Started) -> tuple[Node, list[str]]:
    """Give the place that mpirun, mpiexec or srun has told."""
    from procession.cli.starters import OWN

    _check_conf(s)
    address = s.text("master_addr") or os.environ.get("MASTER_ADDR", "")
    if not address and started.machines > 1:
        address = started.address
        if not address:
            raise SpecError(
                f"{started.starter} has started {started.size} of this command on "
                f"{started.machines} machines, but does not say where rank 0 is: write "
                f"--master-addr HOST, or set MASTER_ADDR; {OWN}"
            )
    address = address.strip("[]") or LOOPBACK
    port = _started_port(s) or started.port or STATIC_PORT
    role, run_id = s.text("role"), s.text("rdzv_id") or started.job or "none"
    said = f"by the variables of {started.starter} ({started.variable} and others)"
    meet = f"ranks meet at {address}:{port}"
    if not started.per_rank:
        node = Node(started.machine, started.machines, address, port, role, run_id)
        of = f"machine {started.machine} of {started.machines}"
        return node, [f"this is {of}, {said}; {meet}; {OWN}"]
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
        return node, []  # the first one on each machine says it
    here = f", with {started.local_size} on this machine"
    return node, [f"this is rank {started.rank} of {started.size}{here}, {said}; {meet}; {OWN}"]


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
    """Refuse what goes beyond one rank, where each has a launcher of its own. Raises SpecError."""
    if nproc != 1:
        count = s.where("nproc_per_node") if s.said("nproc_per_node") else "several programs"
        raise SpecError(
            f"{count}: this command was started {node.world} times, {node.local_world} of them on "
            f"this machine, once for each rank, and cannot have {nproc} ranks; leave it out, or "
            "start one command per machine (mpirun --map-by ppr:1:node, srun --ntasks-per-node=1), "
            "or write --nnodes 1 for a group of its own in each"
        )
    for name in ("numa_binding", "cpus_per_rank"):
        if s.said(name):
            raise SpecError(
                f"{s.where(name)}: each rank has a launcher of its own here, which cannot see what "
                "the others take; let who started them bind them: mpirun --bind-to, srun --cpu-bind"
            )


def _node(s: Settings, pod: str | None) -> Node:
    """Give the place that options say. pod: its number, where Kubernetes tells it."""
    count = _nodes(s)
    _check_conf(s)
    role = s.text("role")
    run_id = "" if s.flag("standalone") else s.text("rdzv_id")
    backend = s.text("rdzv_backend")
    if backend != "static" and backend not in FINDERS:
        meant = near(backend, ("static", *FINDERS))
        hint = f"; did you mean {meant}?" if meant else f"; for several machines, {BY_HAND}"
        raise SpecError(f"{s.where('rdzv_backend')}: there is no rendezvous {backend!r}{hint}")
    if s.flag("standalone") and count > 1:
        raise SpecError(
            f"{s.where('standalone')} is for one machine, but {s.where('nnodes')} says {count}; "
            f"for several machines, {BY_HAND}"
        )
    rank = _number(s, "node_rank", "a number of 0 or more") if s.said("node_rank") else 0
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
    address, port = _meeting(s, count, C10D_PORT if backend != "static" else None)
    return Node(rank, count, address, port, role, run_id or ("none" if count > 1 else ""))


def _pod(s: Settings, pod: str, count: int, role: str, run_id: str) -> Node:
    """Give the place of a pod of an Indexed Job, whose number Kubernetes tells."""
    if not is_number(pod) or int(pod) >= count:
        raise SpecError(
            f"{POD} is {pod!r}, but {s.where('nnodes')} says {count} machines, numbered 0 to "
            f"{count - 1}: let it be the Job's completions, or say --node-rank"
        )
    if s.said("rdzv_endpoint"):
        address, port = _endpoint(s, C10D_PORT)
    else:
        address = (s.text("master_addr") or os.environ.get("MASTER_ADDR", "")).strip("[]")
        port = _started_port(s) or STATIC_PORT
    if not address:
        raise SpecError(
            f"this is pod {pod} of {count}, and each has an address of its own: write "
            "--master-addr POD.SERVICE, or set MASTER_ADDR, where POD is the name of pod 0 and "
            "SERVICE that of its headless service; `procession manifest kubernetes` does so"
        )
    return Node(int(pod), count, address, port, role, run_id or "none")


def _nodes(s: Settings) -> int:
    text = s.text("nnodes")
    least, colon, most = text.partition(":")
    if not is_number(least) or (colon and not is_number(most)):
        raise SpecError(f"{s.where('nnodes')} must be a count of machines, not {text!r}")
    low, high = int(least), int(most or least)
    if low < 1 or high < low:
        raise SpecError(f"{s.where('nnodes')} must be a count of 1 or more, not {text!r}")
    if low != high:
        raise SpecError(
            f"{s.where('nnodes')} {text}: procession has no groups whose size changes; {BY_HAND} "
            f"of the machines that take part, with COUNT from {low} to {high}"
        )
    return high


def _meeting(s: Settings, count: int, default_port: int | None) -> tuple[str, int]:
    """Give the address and the port at which ranks meet."""
    if s.said("rdzv_endpoint"):
        return _endpoint(s, default_port)
    if not s.said("master_port") and count == 1:
        return s.text("local_addr") or LOOPBACK, 0  # nobody else has to know
    address = s.text("master_addr") or LOOPBACK
    if not s.said("master_port"):
        return address.strip("[]"), STATIC_PORT
    port = _number(s, "master_port", "a port from 1 to 65535")
    if port > 65535 or (port == 0 and count > 1):
        raise SpecError(f"{s.where('master_port')} must be a port from 1 to 65535, not {port}")
    return address.strip("[]"), port


def _endpoint(s: Settings, default_port: int | None) -> tuple[str, int]:
    text = s.text("rdzv_endpoint").strip()
    host, colon, port = text.rpartition(":")
    if not colon and default_port is not None:
        host, port = text, str(default_port)
    if not host or not is_number(port) or not 0 < int(port) <= 65535:
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


__all__ = ["check_one_rank", "read_node"]
