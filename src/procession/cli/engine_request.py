"""What a command line asks of an engine. Starts nothing."""

from __future__ import annotations

import os
from collections.abc import Mapping

from procession.cli.readers import is_number
from procession.cli.settings import Settings
from procession.driver.job import LEASE
from procession.engines.contract import EngineError
from procession.engines.registry import NAMES, NO_OPTIONS
from procession.engines.rendezvous.terms import Terms
from procession.engines.slurm.allocation import read_allocation
from procession.values.base import Value
from procession.values.errors import SpecError

NO_ENGINE = "none"  # no engine, even under srun


class EngineRequest(Value):
    """What is asked of an engine.

    nodes: how many, None for all that it has. spares: how many more are held ready. lease: seconds.
    link_encryption: "auto" or "required". devices: the kind of which each rank gets one. options:
    the engine's own that were given. terms: of the rendezvous, where launchers find each other
    instead.
    """

    name: str
    nodes: int | None = None
    spares: int = 0
    lease: float = LEASE
    link_encryption: str = "auto"
    devices: str = ""
    options: Mapping[str, str] = NO_OPTIONS
    terms: Terms | None = None


def ask(s: Settings, name: str, chosen: str) -> EngineRequest:
    """Give what is asked of other machines; options that do not apply to them are dealt with.

    name: of the engine. chosen: how it was chosen, for a refusal. Raises SpecError.
    """
    s.keep_applicable(name, chosen)
    if s.text("stdin") != "none":
        why = "cannot be: ranks on other machines cannot read this command's input"
        s.does_not_apply("stdin", why)
    fields = s.fields("engine") | {"name": name, "options": s.fields("options")}
    return EngineRequest(devices=s.text("devices"), **fields)


def read_engine(s: Settings) -> EngineRequest:
    """Give what is asked of an engine by --engine, which is said. Raises SpecError."""
    name, chosen = s.text("engine"), s.where("engine")
    if name not in NAMES:
        known = ", ".join((*NAMES, NO_ENGINE))
        raise SpecError(f"{chosen}: there is no engine {name!r}; there are {known}")
    try:
        request = ask(s, name, chosen)
        request = request.__replace__(nodes=_nodes(s))
        if name == "ssh":
            return _with_hosts(s, request)
        found = read_allocation(os.environ) if name == "slurm" else None
        if found is not None:
            request = request.__replace__(nodes=request.nodes or len(found.nodes))
            if found.tasks_per_node and not s.said("nproc_per_node"):
                s.add("nproc_per_node", str(found.tasks_per_node), "SLURM_NTASKS_PER_NODE")
    except EngineError as e:
        raise SpecError(str(e)) from None
    return request


def _nodes(s: Settings) -> int | None:
    text = s.text("nnodes") if s.said("nnodes") else ""
    if text and (not is_number(text) or not int(text)):
        raise SpecError(f"{s.where('nnodes')} must be a count of 1 or more, not {text!r}")
    return int(text) if text else None


def _with_hosts(s: Settings, on: EngineRequest) -> EngineRequest:
    """Take from the list of hosts how many there are, and how many ranks each has."""
    from procession.engines.ssh.hosts import check_spares, ranks_of_each, read_hosts

    hosts = read_hosts(on.options.get("hosts", ""), on.options.get("hostfile", ""), os.environ)
    if not s.said("nproc_per_node"):
        ranks = ranks_of_each(hosts)
        if ranks:
            s.add("nproc_per_node", str(ranks), "the list of hosts")
    return on.__replace__(nodes=check_spares(len(hosts), on.nodes, on.spares))
