"""Where a group stands among several machines, and where its ranks meet: torchrun's options.

Ranks are numbered by hand: node rank times ranks per node. So what decides that only when machines
have found each other (c10d and etcd over several of them, a range of nodes) is refused.
"""

from __future__ import annotations

from procession.cli.parser import near
from procession.cli.parts import is_number
from procession.cli.settings import Settings
from procession.errors import SpecError
from procession.rankenv import Node

BY_HAND = "write --nnodes COUNT --node-rank NUMBER --master-addr HOST --master-port PORT on each"
FINDERS = ("c10d", "etcd", "etcd-v2")
STATIC_PORT = 29500  # torchrun's
C10D_PORT = 29400
LOOPBACK = "127.0.0.1"


def read_node(s: Settings) -> Node:
    """Give this group's place. Raises SpecError."""
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


__all__ = ["read_node"]
