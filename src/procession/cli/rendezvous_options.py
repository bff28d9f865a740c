"""What a command line asks of a rendezvous: torchrun's options for one launcher on each machine."""

from __future__ import annotations

import os
from typing import Any

from procession.cli.engine_request import EngineRequest
from procession.cli.nodes import FINDERS, LOOPBACK, endpoint, node_range, read_node
from procession.cli.option import MEETING
from procession.cli.settings import Settings
from procession.engines.rendezvous.terms import PORT, Terms, door_of, parse_conf, terms_of_conf
from procession.values.errors import SpecError

C10D = "c10d"
STATIC = "static"
SRUN = "SLURM_STEP_ID"  # is there in what srun starts
NOT_TOGETHER = {
    "live": "cannot be where launchers on several machines are one job: their lines would tear the "
    "view; write --status SECONDS, or `procession attach` in another terminal of the host",
    "detach": "cannot be where launchers on several machines are one job: this one could not be "
    "found again on machines that do not host it; let nohup, setsid or systemd-run start it",
}


def read_rendezvous(s: Settings, *, torchrun: bool = False) -> EngineRequest | None:
    """Give what is asked of a rendezvous; None where none is asked for. Raises SpecError.

    torchrun: as torchrun does, by its options alone.
    """
    backend = s.text("rdzv_backend")
    if s.flag("standalone") or backend not in (STATIC, C10D, *FINDERS):
        return None
    least, most = node_range(s)
    if most == 1:
        return None
    if backend == STATIC:
        return _numbered(s, torchrun) if least == most else None
    if backend != C10D:
        raise SpecError(
            f"{s.where('rdzv_backend')} {backend}: procession needs no server of etcd; write "
            "--rdzv-backend c10d --rdzv-endpoint HOST:PORT, with the address of one of the machines"
        )
    _check(s)
    if s.said("node_rank"):
        s.notes.append(
            f"{s.where('node_rank')} has no effect: c10d numbers the machines by their names"
        )
    host, port = _place(s)
    conf = terms_of_conf(parse_conf(s.text("rdzv_conf"), s.where("rdzv_conf")),
                         s.where("rdzv_conf"), static=False)  # fmt: skip
    run_id, local = s.text("rdzv_id") or "none", s.text("local_addr").strip("[]")
    return _request(s, Terms(host, port, run_id, least, most, local_addr=local, **conf))


def _request(s: Settings, terms: Terms) -> EngineRequest:
    fields: dict[str, Any] = s.fields("engine")
    lease = float(fields.pop("lease", terms.lease))
    terms = terms.__replace__(lease=lease)
    return EngineRequest(MEETING, terms.most, lease=lease, terms=terms, **fields)


def _numbered(s: Settings, torchrun: bool) -> EngineRequest | None:
    """Give what is asked of machines that have numbers; None where each launcher is for itself."""
    if not torchrun and not s.said("node_rank"):
        from procession.cli.starters import read_started

        if SRUN in os.environ or read_started(os.environ) is not None:
            return None  # who started them numbers them
    node, notes = read_node(s, torchrun=torchrun)
    where = s.where("rdzv_conf")
    conf = terms_of_conf(parse_conf(s.text("rdzv_conf"), where), where, static=True)
    if conf.pop("apart", False) or node.count == 1:
        return None
    _check(s)
    s.notes += notes
    conf.setdefault("is_host", node.rank == 0)
    place: Any = node.address, door_of(node.port), node.run_id, node.count, node.count
    return _request(s, Terms(*place, number=node.rank, ranks_port=node.port, **conf))


def _check(s: Settings) -> None:
    """Refuse or leave out what cannot be where launchers are one job."""
    for name, why in NOT_TOGETHER.items():
        s.does_not_apply(name, why)
    s.keep_applicable(MEETING, "a rendezvous of several machines")
    if s.text("stdin") != "none":
        s.does_not_apply("stdin", "cannot be: ranks on other machines cannot read this input")


def _place(s: Settings) -> tuple[str, int]:
    """Give where the launchers meet."""
    if s.said("rdzv_endpoint"):
        if s.said("master_addr"):
            s.notes.append(f"{s.where('master_addr')} has no effect beside --rdzv-endpoint")
        return endpoint(s, PORT)
    s.notes.append(
        f"no --rdzv-endpoint: the launchers meet at {LOOPBACK}:{PORT}, which is another machine "
        "for each of them"
    )
    return LOOPBACK, PORT
