"""What a command line asks of a rendezvous: one launcher was started on each machine.

They are told so by torchrun's options, or by the variables of mpirun or srun, which has started
them.
"""

from __future__ import annotations

import os
from typing import Any

from procession.cli.engine_request import EngineRequest
from procession.cli.nodes import FINDERS, LOOPBACK, NUMBERING, endpoint, node_range, read_node
from procession.cli.settings import Settings
from procession.cli.words import MEETING
from procession.engines.rendezvous.terms import PORT, Terms, door_of, parse_conf, terms_of_conf
from procession.values.errors import SpecError

C10D = "c10d"
STATIC = "static"
NOT_TOGETHER = {
    "live": "cannot be where launchers on several machines are one job: their lines would tear the "
    "view; write --status SECONDS, or `procession attach` in another terminal of the host",
    "detach": "cannot be where launchers on several machines are one job: this one could not be "
    "found again on machines that do not host it; let nohup, setsid or systemd-run start it",
    "spare_nodes": "is for machines that procession asks for: here, start more launchers than "
    "--nnodes says, and those that are too many are spare",
}
PLACE = ("master_addr", "master_port", "rdzv_endpoint")  # where ranks meet, by options


def read_rendezvous(s: Settings, *, torchrun: bool = False) -> EngineRequest | None:
    """Give what is asked of a rendezvous; None where none is asked for. Raises SpecError.

    torchrun: as torchrun does, by its options alone.
    """
    backend = s.text("rdzv_backend")
    if s.flag("standalone") or backend not in (STATIC, C10D, *FINDERS):
        return None
    if not s.said("nnodes"):
        return None if torchrun else _by_starter(s)
    least, most = node_range(s)
    if most == 1:
        return None
    if backend == STATIC:
        if not torchrun and not s.said("node_rank"):
            from procession.cli.starters import read_started

            if read_started(os.environ) is not None:
                return _by_starter(s)
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
    run_id, local = s.text("rdzv_id") or "none", s.text("local_addr").strip("[]")
    conf = _conf(s, static=False)
    return _request(s, Terms(host, port, run_id, least, most, local_addr=local, **conf))


def _conf(s: Settings, *, static: bool) -> dict[str, Any]:
    where = s.where("rdzv_conf")
    conf = terms_of_conf(parse_conf(s.text("rdzv_conf"), where), where, static=static)
    lease = s.fields("engine").get("lease")
    if "lease" in conf and lease not in (None, conf["lease"]):
        raise SpecError(
            f"{where} has two values for one thing: keep_alive_interval times "
            f"keep_alive_max_attempt is {conf['lease']:g}, and {s.where('lease')} {lease:g}"
        )
    return conf


def _request(s: Settings, terms: Terms) -> EngineRequest:
    fields: dict[str, Any] = s.fields("engine")
    fields.pop("name", None)
    lease = float(fields.pop("lease", terms.lease))
    terms = terms.__replace__(lease=lease)
    return EngineRequest(MEETING, terms.most, lease=lease, terms=terms, **fields)


def _numbered(s: Settings, torchrun: bool = False, **known: Any) -> EngineRequest | None:
    """Give what is asked of machines that have numbers; None where each launcher is for itself.

    known: further fields of `Terms`.
    """
    node, notes = read_node(s, torchrun=torchrun)
    conf = _conf(s, static=True)
    if conf.pop("apart", False) or node.count == 1:
        return None
    _check(s)
    conf.setdefault("is_host", node.rank == 0)
    place: Any = node.address, door_of(node.port), node.run_id, node.count, node.count
    terms = Terms(*place, number=node.rank, ranks_port=node.port, **known, **conf)
    s.notes += notes if terms.tells else []
    return _request(s, terms)


def _by_starter(s: Settings) -> EngineRequest | None:
    """Give what is asked of machines on each of which one command has started a launcher.

    None where each rank has a launcher, or options say otherwise. Raises SpecError.
    """
    from procession.cli.starters import read_started

    started = read_started(os.environ)
    if started is None or started.per_rank:
        return None
    if not s.said("nnodes") and any(s.said(name) for name in NUMBERING):
        return None  # a group of its own
    if not (any(s.said(name) for name in PLACE) or "MASTER_ADDR" in os.environ):
        found = by_tasks(s)
        if found is not None:
            return found
    names = ("",) * started.machines
    return _numbered(s, together=names, starter=started.starter)


def by_tasks(s: Settings) -> EngineRequest | None:
    """Give what is asked of the tasks of a step of srun; None where there is none, or one task.

    Raises SpecError.
    """
    from procession.engines.slurm.allocation import read_task

    task = read_task(os.environ)
    if task is None or task.count < 2:
        return None
    from procession.engines.rendezvous.tasks import terms_of_task

    least, most = node_range(s) if s.said("nnodes") else (task.count, task.count)
    conf = _conf(s, static=least == most)
    if conf.pop("apart", False):
        return None
    terms = terms_of_task(task, least, most, **conf)
    _check(s)
    return _request(s, terms)


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
        if s.said("master_port"):
            s.notes.append(f"{s.where('master_port')} has no effect beside --rdzv-endpoint")
        return endpoint(s, PORT)
    s.notes.append(
        f"no --rdzv-endpoint: the launchers meet at {LOOPBACK}:{PORT}, which is another machine "
        "for each of them [P417]"
    )
    return LOOPBACK, PORT
