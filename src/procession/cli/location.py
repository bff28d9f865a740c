"""Finds out where this launcher stands: alone, or which one of a job on several machines.

The command line is asked first, then the variables of srun, mpirun and mpiexec (see `starters`),
then the number of a pod in an Indexed Job of Kubernetes. The options are torchrun's, and torchrun's
command is asked by its options alone. Where machines have numbers, ranks are numbered node rank
times ranks per node. Where each rank has a launcher of its own, `-n` is 1, and each is a group.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from procession.cli.engine_request import NO_ENGINE, SLURM, EngineRequest, read_engine
from procession.cli.readers import is_number
from procession.cli.settings import Settings
from procession.cli.starters import OWN, Started, read_started
from procession.cli.words import MEETING, near
from procession.engines.rendezvous.terms import (
    PORT,
    Terms,
    door_of,
    parse_conf,
    read_endpoint,
    read_machines,
    terms_of_conf,
)
from procession.values.base import Value
from procession.values.environment import ALONE, Node
from procession.values.errors import SpecError

EACH = "write --nnodes COUNT --node-rank NUMBER --master-addr HOST --master-port PORT on each"
BACKENDS = ("static", "c10d", "etcd", "etcd-v2")
RANKS_PORT = 29500  # torchrun's
LOOPBACK = "127.0.0.1"
# Any of these means that options number the machines; other options also go with mpirun.
NUMBERING = ("nnodes", "node_rank", "standalone", "local_addr", "rdzv_backend", "rdzv_endpoint")
POD = "JOB_COMPLETION_INDEX"
COME_WITHIN = 120.0  # seconds: processes of one command may start long after each other
ANSWER_WITHIN = 10.0  # seconds, for one peer: the next port may be the right one
NOT_TOGETHER = {
    "live": "cannot be where launchers on several machines are one job: their lines would tear the "
    "view; write --status SECONDS, or `procession attach` in another terminal of the host",
    "detach": "cannot be where launchers on several machines are one job: this one could not be "
    "found again on machines that do not host it; let nohup, setsid or systemd-run start it",
    "spare_nodes": "is for machines that procession asks for: here, start more launchers than "
    "--nnodes says, and those that are too many are spare",
}


class Location(Value):
    """Where this launcher stands. node: which ranks it has. engine: what is asked of other
    machines, None for a launcher that is for itself.
    """

    node: Node = ALONE
    engine: EngineRequest | None = None


def locate(s: Settings, *, torchrun: bool = False) -> Location:
    """Find out where this launcher stands; refuses what does not apply there. Raises SpecError.

    torchrun: as torchrun does, by its options alone.
    """
    found = _located(s, torchrun)
    if found.engine is None:
        s.keep_applicable("", "")
    return found


def _located(s: Settings, torchrun: bool) -> Location:
    engine = s.text("engine") if s.said("engine") else ""
    if engine not in ("", NO_ENGINE):
        by_srun = engine == SLURM and "SLURM_STEP_NUM_TASKS" in os.environ
        started = read_started(os.environ) if by_srun else None
        if started is not None and started.starter == "srun":
            return _as_started(s, started)
        return Location(Node(role=s.text("role"), run_id=s.text("rdzv_id")), read_engine(s))
    least, most, backend = _machines(s)
    several, numbered = most > 1, s.said("node_rank")
    if several and backend == "c10d":
        return _found(s, least, most)
    options_say = any(s.said(name) for name in NUMBERING)
    if not torchrun and not (options_say and (numbered or not several)):
        started = read_started(os.environ)
        if started is not None:
            return _as_started(s, started)
    if least != most:
        raise SpecError(
            f"{s.where('nnodes')} {s.text('nnodes')}: a range is for machines that find each "
            "other; write --rdzv-backend c10d --rdzv-endpoint HOST:PORT on each"
        )
    pod = os.environ.get(POD) if several and not numbered and not torchrun else None
    return _numbered(s, most, backend, pod, torchrun)


def _machines(s: Settings) -> tuple[int, int, str]:
    """Give how many machines take part, at least and at most, and by what they find each other."""
    least, most = read_machines(s.text("nnodes"), s.where("nnodes"))
    if most > 1:
        s.not_together("nnodes", "standalone", f"for several machines, {EACH}")
        least, most = read_machines(s.text("nnodes"), s.where("nnodes"))
    backend, where = s.text("rdzv_backend"), s.where("rdzv_backend")
    if backend not in BACKENDS:
        meant = near(backend, BACKENDS)
        hint = f"did you mean {meant}?" if meant else f"for several machines, {EACH}"
        raise SpecError(f"{where}: there is no rendezvous {backend!r}; {hint}")
    if most > 1 and backend.startswith("etcd"):
        raise SpecError(
            f"{where} {backend}: procession needs no server of etcd; write "
            "--rdzv-backend c10d --rdzv-endpoint HOST:PORT, with the address of one of the machines"
        )
    return least, most, backend


def _found(s: Settings, least: int, most: int) -> Location:
    """Locate one of the launchers that find each other and agree on numbers: c10d."""
    useless = {"node_rank": ": c10d numbers the machines by their names"}
    if s.said("rdzv_endpoint"):
        useless |= dict.fromkeys(("master_addr", "master_port"), " beside --rdzv-endpoint")
    s.notes += [f"{s.where(n)} has no effect{why}" for n, why in useless.items() if s.said(n)]
    if s.said("rdzv_endpoint"):
        host, port = read_endpoint(s.text("rdzv_endpoint"), s.where("rdzv_endpoint"))
    else:
        host, port = LOOPBACK, PORT
        s.notes.append(
            f"no --rdzv-endpoint: the launchers meet at {host}:{port}, which is another machine "
            "for each of them [P417]"
        )
    run_id, local = s.text("rdzv_id") or "none", s.text("local_addr").strip("[]")
    terms = Terms(host, port, run_id, least, most, local_addr=local, **_conf(s, static=False))
    return Location(Node(role=s.text("role"), run_id=run_id), _one_job(s, terms))


def _numbered(s: Settings, count: int, backend: str, pod: str | None, torchrun: bool) -> Location:
    """Locate a launcher by its number. pod: that of Kubernetes, None where it does not count."""
    rank = _node_rank(s, count) if pod is None else _number_of_pod(s, pod, count)
    role, run_id = s.text("role"), "" if s.flag("standalone") else s.text("rdzv_id")
    if count == 1:
        parse_conf(s.text("rdzv_conf"), s.where("rdzv_conf"))
        said = not s.flag("standalone") and backend == "static"
        address, port = _meeting(s, {}, count) if said else ("", None)
        if port is None:
            address, port = s.text("local_addr"), 0  # only this launcher needs to know the port
        return Location(Node(address=address or LOOPBACK, port=port, role=role, run_id=run_id))
    address, port = _meeting(s, {} if pod is None else os.environ, count)
    if not address and torchrun:
        address = LOOPBACK
        s.notes.append(
            f"no --master-addr: ranks of {count} machines are to meet at {address}, which is "
            "another machine for each of them [P417]"
        )
    if not address and pod is not None:
        raise SpecError(
            f"this is pod {pod} of {count}, and each has an address of its own: write "
            "--master-addr POD.SERVICE, or set MASTER_ADDR, where POD is the name of pod 0 and "
            "SERVICE that of its headless service"
        )
    if not address:
        raise SpecError(
            f"{s.where('nnodes')} says {count} machines, but not where ranks meet: write "
            f"--master-addr HOST, the address of machine 0 (or {LOOPBACK}, if all are this one)"
        )
    node = Node(rank, count, address, port or RANKS_PORT, role, run_id or "none")
    conf = _conf(s, static=True)
    if _is_apart(s, conf):
        return Location(node)
    conf.setdefault("is_host", rank == 0)
    place: Any = address, door_of(node.port), node.run_id, count, count
    return Location(node, _one_job(s, Terms(*place, number=rank, ranks_port=node.port, **conf)))


def _node_rank(s: Settings, count: int) -> int:
    """Give the number of this machine by the option; 0 where it is not said."""
    if not s.said("node_rank"):
        return 0
    text, where = s.text("node_rank"), s.where("node_rank")
    if not is_number(text):
        raise SpecError(f"{where} must be a number of 0 or more, not {text!r}")
    if int(text) and count == 1 and not s.on_command_line("node_rank"):
        s.does_not_apply("node_rank", f"is {text}, and this run is on one machine")
        return 0
    if int(text) >= count:
        raise SpecError(
            f"{where} is {text}, but the machines are numbered 0 to {count - 1}: "
            f"{s.where('nnodes')} says how many there are"
        )
    return int(text)


def _number_of_pod(s: Settings, pod: str, count: int) -> int:
    if not is_number(pod) or int(pod) >= count:
        raise SpecError(
            f"{POD} is {pod!r}, but {s.where('nnodes')} says {count} machines, numbered 0 to "
            f"{count - 1}: let it be the Job's completions, or say --node-rank"
        )
    return int(pod)


def _as_started(s: Settings, started: Started) -> Location:
    """Locate a launcher by the variables of srun, mpirun or mpiexec."""
    count = len(started.machines)
    least, most = read_machines(s.text("nnodes"), s.where("nnodes"))
    conf = _conf(s, static=least == most)
    alone = _is_apart(s, conf) or started.per_rank
    if s.said("nnodes"):
        _check_machines(s, started, least, most, alone)
    else:
        least = most = count
    if started.per_rank and s.said("engine") and s.text("engine") != NO_ENGINE:
        raise SpecError(
            f"srun started {started.local_size} tasks on a node, but one is enough for all ranks "
            "there: srun --ntasks-per-node=1 procession run -n RANKS_PER_NODE ..."
        )
    address, port = _meeting(s, os.environ, most)
    address = address or started.machines[0] or (LOOPBACK if count == 1 else "")
    if not address:
        raise SpecError(
            f"{started.starter} has started {started.size} of this command on {count} machines, "
            f"but does not say where rank 0 is: write --master-addr HOST, or set MASTER_ADDR; {OWN}"
        )
    if alone:
        return Location(_node_of(s, started, address, port))
    if "is_host" in conf:
        raise SpecError(
            f"is_host has no meaning here: the first of {started.starter}'s tasks hosts the "
            "rendezvous; leave it out"
        )
    ports = [door_of(port or RANKS_PORT)] if port or not started.ports else started.ports
    known: dict[str, Any] = {"join": COME_WITHIN, "read": ANSWER_WITHIN, **conf}
    terms = Terms(
        address,
        ports[0],
        s.text("rdzv_id") or started.job or "none",
        least,
        most,
        is_host=started.rank == 0,
        ranks_port=0 if started.ports and not port else port or RANKS_PORT,
        together=started.machines,
        order=started.rank,
        starter=started.starter,
        further=tuple(ports[1:]),
        **known,
    )
    return Location(Node(role=s.text("role"), run_id=s.text("rdzv_id")), _one_job(s, terms))


def _check_machines(s: Settings, started: Started, least: int, most: int, alone: bool) -> None:
    """Refuse counts of machines that do not fit to what was started.

    alone: the launcher is for itself, so none can be spare.
    """
    count = len(started.machines)
    if not started.per_rank and most <= count and not (alone and least < count):
        return
    of_each = (
        f"{started.size} times, once for each rank" if started.per_rank else f"on {count} machines"
    )
    raise SpecError(
        f"{s.where('nnodes')} says {most} machines, but {started.starter} has started this command "
        f"{of_each}: leave --nnodes out, or write --node-rank NUMBER, too"
    )


def _node_of(s: Settings, started: Started, address: str, port: int | None) -> Node:
    """Give the ranks of a launcher that is for itself, by the variables, and say so."""
    if not port:
        port = started.ports[0] if started.ports else RANKS_PORT
    count, run_id = len(started.machines), s.text("rdzv_id") or started.job or "none"
    node = Node(started.machine, count, address, port, s.text("role"), run_id)
    which = f"machine {started.machine} of {count}"
    if started.per_rank:
        node = node.__replace__(
            number=started.rank,
            world=started.size,
            local=started.local,
            local_world=started.local_size,
            threads=started.cpus,
        )
        here = started.local_size
        which = f"rank {started.rank} of {started.size}, with {here} on this machine"
    if not started.local:  # the first process on each machine says it
        s.notes.append(
            f"this is {which}, by the variables of {started.starter} ({started.variable} and "
            f"others); ranks meet at {address}:{port}; {OWN} [P414]"
        )
    return node


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


def _meeting(s: Settings, env: Mapping[str, str], count: int) -> tuple[str, int | None]:
    """Give the address and the port at which ranks meet, "" and None for what is not said.

    env: where MASTER_ADDR and MASTER_PORT count as well.
    """
    if s.said("rdzv_endpoint"):
        return read_endpoint(s.text("rdzv_endpoint"), s.where("rdzv_endpoint"), 0)
    address = s.text("master_addr") or env.get("MASTER_ADDR", "")
    text, where = env.get("MASTER_PORT", ""), "MASTER_PORT"
    if s.said("master_port"):
        text, where = s.text("master_port"), s.where("master_port")
    least = 0 if count == 1 else 1
    if text and not (is_number(text) and least <= int(text) <= 65535):
        raise SpecError(f"{where} must be a port from 1 to 65535, not {text!r}")
    return address.strip("[]"), int(text) if text else None


def _conf(s: Settings, *, static: bool) -> dict[str, Any]:
    """Read --rdzv-conf: fields of `Terms`, and "apart"."""
    where = s.where("rdzv_conf")
    conf = terms_of_conf(parse_conf(s.text("rdzv_conf"), where), where, static=static)
    lease = s.fields("engine").get("lease")
    if "lease" in conf and lease not in (None, conf["lease"]):
        raise SpecError(
            f"{where} has two values for one thing: keep_alive_interval times "
            f"keep_alive_max_attempt is {conf['lease']:g}, and {s.where('lease')} {lease:g}"
        )
    return conf


def _is_apart(s: Settings, conf: dict[str, Any]) -> bool:
    """Tell whether a launcher on one of several machines is to be for itself."""
    alone = s.said("engine") and s.text("engine") == NO_ENGINE
    return bool(conf.pop("apart", False)) or alone


def _one_job(s: Settings, terms: Terms) -> EngineRequest:
    """Ask that launchers be one job; refuses or leaves out what cannot be then."""
    for name, why in NOT_TOGETHER.items():
        s.does_not_apply(name, why)
    s.keep_applicable(MEETING, "a rendezvous of several machines")
    if s.text("stdin") != "none":
        s.does_not_apply("stdin", "cannot be: ranks on other machines cannot read this input")
    fields: dict[str, Any] = s.fields("engine")
    fields.pop("name", None)
    lease = float(fields.pop("lease", terms.lease))
    terms = terms.__replace__(lease=lease)
    return EngineRequest(MEETING, terms.most, lease=lease, terms=terms, **fields)
