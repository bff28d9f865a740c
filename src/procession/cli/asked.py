"""What a command line asks for, put together from what is said in it and elsewhere.

What reads the options of one subject is imported if one of them is said: a plain launch needs few.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from procession.cli.options import DEFAULTS, TORCHRUN, make_parser
from procession.cli.parts import by_rank, is_number, read_parts
from procession.cli.settings import Settings, gather
from procession.errors import SpecError
from procession.output.plan import Output
from procession.placement import Placement
from procession.policy import (
    DEFAULT_HANG,
    DEFAULT_LOGS,
    DEFAULT_STOP,
    NO_RESTART,
    Hang,
    Logs,
    Restart,
    Stop,
)
from procession.rankenv import ALONE, Node
from procession.spec import Spec, make_spec
from procession.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    from procession.cli.detached import Told
    from procession.cli.engine import OnEngine

RUN = "procession run"
OF_NODES = (
    "nnodes", "node_rank", "master_addr", "master_port", "rdzv_endpoint", "rdzv_backend",
    "rdzv_id", "rdzv_conf", "standalone", "local_addr", "role",
)  # fmt: skip
# Who starts this command once per machine or rank tells so in one of these; see `starters`.
OF_STARTERS = ("OMPI_COMM_WORLD_SIZE", "MPI_LOCALNRANKS", "SLURM_STEP_NUM_TASKS")
OF_OUTPUT = (
    "log_dir", "redirects", "tee", "local_ranks_filter", "duplicate_stdout_filters",
    "duplicate_stderr_filters", "prefix",
)  # fmt: skip
OF_LIFE = (
    "max_restarts", "shutdown_timeout", "signals_to_handle", "start_method", "monitor_interval",
    "event_log_handler", "restart_backoff", "restart_window", "min_uptime", "restart_scope",
    "no_restart_codes", "forward", "preempt", "max_node_losses",
)  # fmt: skip
OF_HANGS = ("hang_timeout", "silence_timeout", "start_timeout", "no_stacks")
OF_ENGINES = (
    "lease",
    "spare_nodes",
    "max_node_losses",
    "time",
    "partition",
    "account",
    "engine_options",
)
OF_PLACE = ("numa_binding", "cpus_per_rank", "nice", "memory_limit")
PREFIX_TEMPLATE = "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"  # torchrun's
SIGNALS = "TORCHELASTIC_SIGNALS_TO_HANDLE"
TORCHS_TIMEOUT = "TORCH_ELASTIC_SHUTDOWN_TIMEOUT"


class Life(Value):
    """How a group lives and ends. signals: to this command, by which the group is ended.

    forward: those that each rank gets. notices: those that tell of the end, with the seconds left.
    """

    stop: Stop = DEFAULT_STOP
    restart: Restart = NO_RESTART
    signals: Sequence[int] = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
    start_method: str = DEFAULTS["start_method"]
    forward: Sequence[int] = ()
    notices: Mapping[int, float] = MappingProxyType({})


class Asked(Value):
    """What a command line asks for.

    dry: only to say what would be run. json: the result on stdout. signals: those that end the
    group. forward, notices: see `Life`. notes: what is to be said before it runs. logs_specs: the
    entry point that lays out logs. otel: to trace the run. live: a view of the group while it
    runs. status: seconds between two lines about it, or None. detach: to give the terminal back.
    told: who waits for a detached run to have started. engine: who gives the nodes; then `spec` is
    what each of them runs.
    """

    spec: Spec
    dry: bool = False
    json: bool = False
    signals: Sequence[int] = ()
    forward: Sequence[int] = ()
    notices: Mapping[int, float] = MappingProxyType({})
    notes: Sequence[str] = ()
    logs_specs: str = ""
    otel: bool = False
    live: bool = False
    status: float | None = None
    detach: bool = False
    told: Told | None = None
    engine: OnEngine | None = None

    def plan(self) -> tuple[Spec, Output | None]:
        """Plan the output where an entry point does; what it says of variables is in the group's.

        Raises SpecError, and whatever the entry point raises.
        """
        if not self.logs_specs:
            return self.spec, None
        from procession.cli.logs_specs import plan_output

        return plan_output(self.spec, self.logs_specs)


def read_command_line(words: list[str], *, torchrun: bool = False) -> Asked:
    """Say what to run by the words behind `procession run`.

    torchrun: the words are those behind torchrun: only its options, and PROGRAM is for Python.

    Raises SpecError for what cannot be done, and SystemExit for a wrong command line and --help.
    """
    parser = make_parser(torchrun=torchrun)
    given, rest = parser.read(words)
    notes: list[str] = []
    if torchrun:
        for name in sorted(vars(given).keys() - TORCHRUN):
            option = "/".join(parser.options[name].option_strings)
            parser.error(f"torchrun has no option {option}; write `{RUN}` to use it")
    s = gather(parser, given)
    engine = _engine(s, torchrun)
    node = _node(s, notes, torchrun) if engine is None else _named(s)
    parts = read_parts(parser, s, rest, torchrun=torchrun)
    nproc = sum(part.nproc for part in parts)
    if node.number is not None:
        from procession.cli.rendezvous import check_one_rank

        check_one_rank(s, node, nproc)
    logs = _logs(s, nproc, notes, torchrun)
    told = None
    detach = s.flag("detach")
    if detach and engine is None:
        from procession.cli.detached import check_detached, taken

        logs = check_detached(s, logs)
        told = taken()
    life = _life(s, notes)
    spec = make_spec(
        nproc=nproc,
        start_method=life.start_method,
        stdin=_stdin(s, nproc) if engine is None else None,
        logs=logs,
        stop=life.stop,
        restart=life.restart,
        hang=_hang(s),
        preload=_preload(s.text("preload")),
        learn=not s.flag("no_learn"),
        node=node,
        placement=_placement(s),
        **by_rank(parts, {SIGNALS: s.text("signals_to_handle")}, node.local),
    )
    return Asked(
        _dealt(spec, s) if engine is None else spec,
        dry=s.flag("dry_run"),
        json=s.flag("json"),
        signals=life.signals,
        forward=life.forward,
        notices=life.notices,
        notes=notes,
        logs_specs=s.text("logs_specs"),
        otel=s.flag("otel"),
        live=s.flag("live"),
        status=_status(s),
        detach=detach,
        told=told,
        engine=engine,
    )


def _engine(s: Settings, torchrun: bool) -> OnEngine | None:
    step = "SLURM_STEP_ID" in os.environ and not torchrun
    if not s.said("engine") and not step:
        for name in OF_ENGINES:
            if s.said(name):
                raise SpecError(f"{s.where(name)} needs --engine")
        return None
    from procession.cli.engine import find_engine

    return find_engine(s)


def _named(s: Settings) -> Node:
    return Node(role=s.text("role"), run_id=s.text("rdzv_id"))


def _node(s: Settings, notes: list[str], torchrun: bool) -> Node:
    started = not torchrun and any(name in os.environ for name in OF_STARTERS)
    if not started and not s.given(OF_NODES):
        return ALONE
    from procession.cli.rendezvous import read_node

    node, said = read_node(s, torchrun=torchrun)
    notes += said
    return node


def _logs(s: Settings, nproc: int, notes: list[str], torchrun: bool) -> Logs:
    if not s.given(OF_OUTPUT) and PREFIX_TEMPLATE not in os.environ:
        return DEFAULT_LOGS
    from procession.cli.output import read_logs

    logs, said = read_logs(s, nproc, torchrun=torchrun)
    notes += said
    return logs


def _life(s: Settings, notes: list[str]) -> Life:
    if not s.given(OF_LIFE) and not os.environ.get(TORCHS_TIMEOUT):
        return Life()
    from procession.cli.life import read_life

    life, said = read_life(s)
    notes += said
    return life


def _hang(s: Settings) -> Hang:
    if not s.given(OF_HANGS):
        return DEFAULT_HANG
    from procession.cli.hanging import read_hang

    return read_hang(s)


def _placement(s: Settings) -> Placement | None:
    if not s.given(OF_PLACE):
        return None
    from procession.cli.place import read_placement

    return read_placement(s)


def _status(s: Settings) -> float | None:
    if s.flag("live") and s.flag("json"):
        raise SpecError(
            f"{s.where('live')} and {s.where('json')} cannot go together: what reads JSON has no "
            f"terminal; --status SECONDS tells of the group on stderr"
        )
    if not s.said("status"):
        return None
    from procession.cli.live import read_status

    return read_status(s.text("status"), s.where("status"))


def _stdin(s: Settings, nproc: int) -> int | None:
    text = s.text("stdin")
    if text == "none":
        return None
    if not is_number(text) or int(text) >= nproc:
        raise SpecError(
            f"{s.where('stdin')} must be a rank from 0 to {nproc - 1}, or none, not {text!r}"
        )
    return int(text)


def _preload(text: str) -> Literal["auto"] | list[str] | None:
    if text == "auto":
        return "auto"
    if text == "none":
        return None
    names = text.split(",")
    for name in names:
        if not all(part.isidentifier() for part in name.split(".")):
            raise SpecError(f"--preload must be names of modules, none or auto, not {name!r}")
    return names


def _dealt(spec: Spec, s: Settings) -> Spec:
    """Give ranks their devices, as far as that is asked for."""
    if s.flag("virtual_local_rank"):
        if s.said("devices"):
            raise SpecError(
                f"{s.where('virtual_local_rank')} and {s.where('devices')} cannot go together: "
                "--devices gives each rank one device as number 0, too"
            )
        from procession.devices import deal_unseen

        return deal_unseen(spec, "cuda")
    if s.said("devices"):
        from procession.devices import deal

        return deal(spec, s.text("devices"))
    return spec


__all__ = ["Asked", "read_command_line"]
