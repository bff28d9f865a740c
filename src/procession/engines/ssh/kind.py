"""`--engine ssh`: hosts that ssh reaches."""

from __future__ import annotations

import os
import shlex

from procession.engines.contract import Chosen, Request
from procession.engines.ssh.engine import SshEngine
from procession.engines.ssh.hosts import read_hosts
from procession.values.errors import SpecError


def choose(request: Request) -> Chosen:
    """Make the engine for a request; nothing is started yet. Raises SpecError, EngineError."""
    said = request.options
    hosts = read_hosts(said.get("hosts", ""), said.get("hostfile", ""), os.environ)
    engine = SshEngine(
        [host.name for host in hosts],
        python=said.get("remote_python") or None,
        options=_words(said.get("engine_options", "")),
    )
    nodes = check_spares(engine.slots, request.nodes, request.spares)
    return Chosen(engine, request.share, nodes)


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


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as e:
        raise SpecError(f"--engine-options {text!r}: {e}") from None
