"""Finds out where this launcher stands: alone, or which one of a job on several machines.

The command line is asked first, then the variables of srun, mpirun and mpiexec, then the number of
a pod in an Indexed Job of Kubernetes. The options are torchrun's, and torchrun's command is asked
by its options alone. Where machines have numbers, ranks are numbered node rank times ranks per
node. Where each rank has a launcher of its own, `-n` is 1, and each is a group.

Variables say which of how many processes this is, but not what they are for. A process that is
alone on its machine is taken for the launcher of all ranks of the machine; each of several on one
machine is taken for the launcher of one rank.

Sources: Open MPI, https://docs.open-mpi.org/en/v5.0.x/tuning-apps/environment-var.html; Hydra of
MPICH and Intel MPI, PMI_RANK, PMI_SIZE, MPI_LOCALRANKID, MPI_LOCALNRANKS (srun --mpi=pmi2 sets the
first two as well, so that only the last two tell of Hydra); Slurm, the output environment variables
in https://slurm.schedmd.com/srun.html. A batch script, and a shell that srun --pty has started,
have most of Slurm's variables, too, but no step with several tasks.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any
from zlib import crc32

from procession.cli.readers import is_number
from procession.cli.settings import Settings
from procession.cli.words import MEETING
from procession.driver.job import LEASE
from procession.engines.contract import NAMES, NO_OPTIONS, EngineError
from procession.engines.rendezvous.terms import (
    PORT,
    Terms,
    door_of,
    parse_conf,
    read_endpoint,
    read_machines,
    terms_of_conf,
)
from procession.engines.slurm.allocation import read_allocation, read_task
from procession.system.files import read
from procession.system.ports import FIRST, LAST
from procession.system.processes import parents
from procession.values.base import Value, is_count
from procession.values.environment import Node
from procession.values.errors import SpecError

OWN = "for a group of its own, write --nnodes 1"
OPEN_MPI = ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
            "OMPI_COMM_WORLD_LOCAL_SIZE")  # fmt: skip
POD = "JOB_COMPLETION_INDEX"  # of an Indexed Job of Kubernetes
HYDRA = ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS")
PORTS = 8  # at which the launchers of one job may meet
NO_ENGINE = "none"  # no engine, even under srun
RANKS_PORT = 29500  # torchrun's
LOOPBACK = "127.0.0.1"
# Any of these means that options number the machines; other options also go with mpirun.
NUMBERING = ("nnodes", "node_rank", "standalone", "local_addr", "rdzv_backend", "rdzv_endpoint")
# Processes of one command may start long after each other; if one does not answer, the next port
# may be the right one. In seconds.
OF_ONE_COMMAND = {"join": 120.0, "read": 10.0}
MACHINES = (
    "write --rdzv-backend c10d --rdzv-endpoint HOST:PORT, or --node-rank NUMBER --master-addr "
    "HOST, on each machine"
)


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


def locate(s: Settings, *, torchrun: bool = False) -> tuple[Node, EngineRequest | None]:
    """Find out where this launcher stands; refuses what does not apply there.

    Gives which ranks it has, and what is asked of other machines: None for a launcher that is for
    itself. torchrun: as torchrun does, by its options alone. Raises SpecError.
    """
    if s.said("engine") and s.text("engine") != NO_ENGINE:
        return Node(role=s.text("role"), run_id=s.text("rdzv_id")), read_engine(s)
    least, most, backend = _machines(s)
    if most > 1 and backend == "c10d":
        terms = _by_names(s, least, most)
        return Node(role=s.text("role"), run_id=terms.run_id), _one_job(s, terms)
    place = _place(s, least, most, torchrun)
    if place.size == 1:
        s.keep_applicable("", "")
        return _alone(s, backend), None
    node, terms = _meeting(s, place, torchrun)
    if place.per_rank or s.said("engine"):
        s.keep_applicable("", "")
        _say_place(s, place, node)
        return node, None
    return node, _one_job(s, terms)


def _machines(s: Settings) -> tuple[int, int, str]:
    """Give how many machines take part, at least and at most, and by what they find each other."""
    least, most = read_machines(s.text("nnodes"), s.where("nnodes"))
    if most > 1:
        s.not_together("nnodes", "standalone", f"for several machines, {MACHINES}")
        least, most = read_machines(s.text("nnodes"), s.where("nnodes"))
    backend = s.text("rdzv_backend")
    if backend not in ("static", "c10d") and (most > 1 or not backend.startswith("etcd")):
        where = s.where("rdzv_backend")
        raise SpecError(f"{where}: there is no rendezvous {backend!r} here; {MACHINES}")
    return least, most, backend


def _by_names(s: Settings, least: int, most: int) -> Terms:
    """Give the terms of launchers that find each other and agree on numbers: c10d."""
    host, port = LOOPBACK, PORT
    if s.said("rdzv_endpoint"):
        host, port = read_endpoint(s.text("rdzv_endpoint"), s.where("rdzv_endpoint"))
    run_id, local = s.text("rdzv_id") or "none", s.text("local_addr").strip("[]")
    return Terms(host, port, run_id, least, most, local_addr=local, **_conf(s, static=False))


def _place(s: Settings, least: int, most: int, torchrun: bool) -> LauncherPlace:
    """Give which one this launcher is, of how many: by the options, or by variables."""
    by_options = any(map(s.said, NUMBERING)) and (s.said("node_rank") or most == 1)
    started = None if torchrun or by_options else read_started(os.environ, most)
    if started is not None:
        count = len(started.machines)
        if s.said("nnodes") and (started.per_rank or not least == most == count):
            on = f"{started.size} times, once for each rank"
            raise SpecError(
                f"{s.where('nnodes')} says {s.text('nnodes')} machines, but {started.starter} has "
                f"started this command {on if started.per_rank else f'on {count} machines'}: leave "
                "--nnodes out, or write --node-rank NUMBER or --rdzv-backend c10d, too"
            )
        return started
    if least != most:
        raise SpecError(
            f"{s.where('nnodes')} {s.text('nnodes')}: a range is for machines that find each "
            "other; write --rdzv-backend c10d --rdzv-endpoint HOST:PORT on each"
        )
    rank = _node_rank(s, most) if s.said("node_rank") else 0
    return LauncherPlace("", "", rank, most, machine=rank, machines=("",) * most)


def _node_rank(s: Settings, count: int) -> int:
    """Give the number of this machine by the option."""
    rank, where = s.value("node_rank"), s.where("node_rank")
    if rank and count == 1 and not s.on_command_line("node_rank"):
        s.does_not_apply("node_rank", f"is {rank}, and this run is on one machine")
        return 0
    if rank >= count:
        raise SpecError(
            f"{where} is {rank}, but the machines are numbered 0 to {count - 1}: "
            f"{s.where('nnodes')} says how many there are"
        )
    return rank


def _alone(s: Settings, backend: str) -> Node:
    """Give the ranks of a launcher on the only machine."""
    parse_conf(s.text("rdzv_conf"), s.where("rdzv_conf"))
    own = s.flag("standalone")
    address, port = ("", None) if own or backend != "static" else _address(s, {}, 0)
    if port is None:  # only this launcher needs to know it
        address, port = s.text("local_addr"), 0
    run_id = "" if own else s.text("rdzv_id")
    return Node(address=address or LOOPBACK, port=port, role=s.text("role"), run_id=run_id)


def _meeting(s: Settings, place: LauncherPlace, torchrun: bool) -> tuple[Node, Terms]:
    """Give the ranks of a launcher that has a number, and the terms on which it meets others."""
    count, conf = len(place.machines), _conf(s, static=True)
    inner = torchrun or "PROCESSION_RUN" in os.environ
    address, port = _address(s, {} if inner else os.environ, 1)
    address = address or place.machines[0] or (LOOPBACK if count == 1 or torchrun else "")
    if not address:
        raise SpecError(
            f"these are {count} machines, but nothing says where ranks meet: write --master-addr "
            f"HOST, the address of machine 0 (or {LOOPBACK}, if all are this one), or set "
            f"MASTER_ADDR; {OWN}"
        )
    run_id = s.text("rdzv_id") or place.job or "none"
    computed = [] if port else place.ports
    port = port or (computed or [RANKS_PORT])[0]
    doors = computed or [door_of(port)]
    node = Node(place.machine, count, address, port, s.text("role"), run_id)
    if place.per_rank:
        node = node.__replace__(
            number=place.rank,
            world=place.size,
            local=place.local,
            local_world=place.local_size,
            threads=place.cpus,
        )
    known: dict[str, Any] = {"is_host": place.machine == 0, "number": place.machine}
    if place.starter:
        known |= {"starter": place.starter, "together": place.machines, **OF_ONE_COMMAND}
    known |= {"ranks_port": 0 if computed else port, "further": tuple(doors[1:]), **conf}
    return node, Terms(address, doors[0], run_id, count, count, **known)


def _address(s: Settings, env: Mapping[str, str], least: int) -> tuple[str, int | None]:
    """Give the address and the port at which ranks meet, "" and None for what is not said.

    env: where MASTER_ADDR and MASTER_PORT count as well. least: the lowest port.
    """
    if s.said("rdzv_endpoint"):
        return read_endpoint(s.text("rdzv_endpoint"), s.where("rdzv_endpoint"), 0)
    address = s.text("master_addr") or env.get("MASTER_ADDR", "")
    text, where = env.get("MASTER_PORT", ""), "MASTER_PORT"
    if s.said("master_port"):
        text, where = s.text("master_port"), s.where("master_port")
    if text and not (is_number(text) and least <= int(text) <= 65535):
        raise SpecError(f"{where} must be a port from 1 to 65535, not {text!r}")
    return address.strip("[]"), int(text) if text else None


def _conf(s: Settings, *, static: bool) -> dict[str, Any]:
    """Read --rdzv-conf: fields of `Terms`."""
    where = s.where("rdzv_conf")
    return terms_of_conf(parse_conf(s.text("rdzv_conf"), where), where, static=static)


def _say_place(s: Settings, place: LauncherPlace, node: Node) -> None:
    """Say which ranks the variables give to a launcher that is for itself."""
    if not place.starter or place.local:
        return  # the first process on each machine says it
    which = f"machine {place.machine} of {node.count}"
    if place.per_rank:
        which = f"rank {place.rank} of {place.size}, with {place.local_size} on this machine"
    s.notes.append(
        f"this is {which}, by the variables of {place.starter} ({place.variable} and others); "
        f"ranks meet at {node.address}:{node.port}; {OWN} [P414]"
    )


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


def _one_job(s: Settings, terms: Terms) -> EngineRequest:
    """Ask that launchers be one job; refuses or leaves out what cannot be then."""
    s.does_not_apply("spare_nodes", "is for machines that procession asks for")
    asked = ask(s, MEETING, "a rendezvous of several machines")
    lease = s.value("lease") if s.said("lease") else terms.lease
    return asked.__replace__(nodes=terms.most, lease=lease, terms=terms.__replace__(lease=lease))


def ask(s: Settings, name: str, chosen: str) -> EngineRequest:
    """Give what is asked of other machines; options that do not apply to them are dealt with.

    name: of the engine. chosen: how it was chosen, for a refusal. Raises SpecError.
    """
    s.keep_applicable(name, chosen)
    if s.text("stdin") != "none":
        s.does_not_apply(
            "stdin", "cannot be: ranks on other machines cannot read this command's input"
        )
    fields = s.fields("engine") | {"name": name, "options": s.fields("options")}
    return EngineRequest(devices=s.text("devices"), **fields)


def read_engine(s: Settings) -> EngineRequest:
    """Give what is asked of an engine by --engine, which is said. Raises SpecError."""
    name, chosen = s.text("engine"), s.where("engine")
    if name not in NAMES:
        known = f"{', '.join(NAMES[:-1])} or {NAMES[-1]}; {NO_ENGINE} disables"
        raise SpecError(f"{chosen}: unknown engine {name!r}; choose {known}")
    try:
        request = ask(s, name, chosen).__replace__(nodes=_nodes(s))
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


# -- what has started this command


class LauncherPlace(Value):
    """Which one of several launchers this process is.

    starter: the command that started them, "" where each has a console of its own. variable: the
    one that has its number. rank, size: its number among all of them, and how many there are.
    local, local_size: the same on this machine. machine: which one this is. machines: the names of
    all, "" for those that are not known. job: the name of the job, "" if unknown. cpus: that each
    process has for itself, 0 if unknown.
    """

    starter: str
    variable: str
    rank: int
    size: int
    local: int = 0
    local_size: int = 1
    machine: int = 0
    machines: tuple[str, ...] = ("",)
    job: str = ""
    cpus: int = 0

    @property
    def per_rank(self) -> bool:
        """Whether there is a process for every rank, and not for every machine."""
        return self.size > len(self.machines)

    @property
    def ports(self) -> list[int]:
        """Ports made of the job's name, the same in all its processes; none without a name."""
        seeds = [f"{self.job} {number}".encode() for number in range(PORTS)] if self.job else []
        return list(dict.fromkeys(FIRST + crc32(seed) % (LAST - FIRST) for seed in seeds))


def read_started(env: Mapping[str, str], count: int) -> LauncherPlace | None:
    """Read what has started this command; None for nothing, or for a single process.

    count: of machines, by the options: pods know their number, but not how many there are. In a
    rank of a group, the variables are about that group's launcher, and are not read. Raises
    SpecError where variables contradict each other.
    """
    found = None
    if "PROCESSION_RUN" in env:
        return None
    if OPEN_MPI[1] in env:
        name = env.get("PMIX_NAMESPACE") or env.get("OMPI_MCA_ess_base_jobid", "")
        found = _mpi(env, "mpirun", OPEN_MPI, f"mpirun_{name}" if name else "")
    elif HYDRA[3] in env:
        found = _mpi(env, "mpiexec", HYDRA, "")
    elif "SLURM_STEP_NUM_TASKS" in env:
        found = _slurm(env)
    if found is None and count > 1 and POD in env:
        (pod,) = _numbers(env, POD)
        found = LauncherPlace("", POD, pod, count, machine=pod, machines=("",) * count)
    if found is None or found.size < 2:
        return None
    if not (found.rank < found.size and found.local < found.local_size <= found.size):
        raise SpecError(
            f"{found.variable} and its like contradict each other: number {found.rank} of "
            f"{found.size}, and number {found.local} of {found.local_size} on this machine; {OWN}"
        )
    return found


def _mpi(env: Mapping[str, str], starter: str, names: Sequence[str], job: str) -> LauncherPlace:
    """Number the machines by the ranks, for MPI has no variable for them: as many on each."""
    rank, size, local, local_size = _numbers(env, *names)
    if not local_size or (rank - local) % local_size or size % local_size:
        raise SpecError(
            f"{starter} has not numbered ranks machine by machine, with as many on each: this is "
            f"rank {rank} of {size}, and number {local} of {local_size} on its machine; write "
            f"`{starter} --map-by ppr:{local_size}:node`, or -ppn {local_size}; {OWN}"
        )
    if names is HYDRA and size == local_size:  # other machines do not know the process
        job = _of_proxy()
    machines = ("",) * (size // local_size)
    return LauncherPlace(
        starter, names[0], rank, size, local, local_size, rank // local_size, machines, job
    )


def _of_proxy() -> str:
    """Name the job by Hydra's process on this machine, the nearest ancestor that is no rank."""
    for pid in parents(os.getpid()) or ():
        if "PMI_RANK=" not in (read(f"/proc/{pid}/environ") or ""):
            return f"mpiexec_{pid}"
    return ""


def _slurm(env: Mapping[str, str]) -> LauncherPlace | None:
    try:
        task = read_task(env)
    except EngineError as e:
        raise SpecError(f"srun's variables are not as Slurm writes them: {e}; {OWN}") from None
    if task is None or task.count < 2:
        return None
    here = task.tasks_on_nodes
    local, machine = _numbers(env, "SLURM_LOCALID", "SLURM_NODEID")
    if not machine < len(task.nodes) == len(here) or sum(here) != task.count:
        said = ", ".join(f"{n}={v}" for n, v in env.items() if n.startswith("SLURM_STEP_"))
        raise SpecError(
            f"srun's variables contradict each other: SLURM_NODEID={machine}, {said}; {OWN}"
        )
    cpus = env.get("SLURM_CPUS_PER_TASK", "")
    return LauncherPlace(
        "srun", "SLURM_PROCID", task.number, task.count, local, here[machine], machine, task.nodes,
        job=f"slurm_{task.job}.{task.step}", cpus=int(cpus) if is_count(cpus) else 0,
    )  # fmt: skip


def _numbers(env: Mapping[str, str], *names: str) -> list[int]:
    for name in names:
        if not is_count(env.get(name, "")):
            raise SpecError(f"{name} is {env.get(name, '')!r}, no number; {OWN}")
    return [int(env[name]) for name in names]
