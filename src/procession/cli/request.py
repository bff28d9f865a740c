"""Turns the settings into a request: what is to be run. Starts nothing, and changes nothing.

The modules that read the options of one subject are imported only if one of them is set.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from procession.cli.options import APART, OPTIONS, make_parser
from procession.cli.programs import by_rank, read_parts
from procession.cli.settings import Settings, gather
from procession.values.base import Value
from procession.values.environment import ALONE, Node
from procession.values.errors import SpecError
from procession.values.events import Event
from procession.values.placement import Placement
from procession.values.policy import Hang, Logs, Restart, Stop
from procession.values.spec import Spec, is_seen, make_spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from procession.cli.location import EngineRequest

# One of these is set where this command was started once per machine or rank; see `starters`.
OF_STARTERS = ("OMPI_COMM_WORLD_SIZE", "MPI_LOCALNRANKS", "SLURM_STEP_NUM_TASKS")
PMI_FD = "PMI_FD"  # the descriptor by which an MPI program speaks to mpiexec or srun
OnEvent = Callable[[Event], object]
SIGNALS = "TORCHELASTIC_SIGNALS_TO_HANDLE"


class Request(Value):
    """What a command line asks for.

    spec: the group; with an engine, what each node runs. settings: what was said, and where. dry:
    only say what would be run. json: print the result on stdout. signals: those that end the group.
    forward: those that each rank gets. notices: those that announce the end, with the seconds that
    are left then. notes: lines to print before it runs. logs_specs: the entry point that lays out
    logs. otel: trace the run. live: show a view of the group while it runs. status: seconds between
    two lines about it, or None. detach: give the terminal back. engine: what is asked of an engine,
    None on this machine.
    """

    spec: Spec
    settings: Settings
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
    engine: EngineRequest | None = None


def read_request(words: Sequence[str], *, torchrun: bool = False) -> Request:
    """Read the words behind `procession run`, and what is said elsewhere.

    torchrun: the words are those behind torchrun: only its options, and PROGRAM is for Python.

    Raises SpecError for what cannot be done, and SystemExit for a wrong command line, for --help
    and --print-completion.
    """
    parser = make_parser(torchrun=torchrun)
    given, rest = parser.read(words)
    if "print_completion" in given:
        from procession.cli import completion

        raise SystemExit(completion.main([given["print_completion"]]))
    s = gather(OPTIONS if torchrun else parser.options, given, torchrun=torchrun)
    for one, other, why in APART:
        s.not_together(one, other, why)
    node, engine = _located(s, torchrun)
    parts = read_parts(parser, s, rest, torchrun=torchrun)
    nproc = sum(part.nproc for part in parts)
    if node.number is not None:
        from procession.cli.location import check_one_rank

        check_one_rank(s, node, nproc)
    logs = _logs(s, nproc, torchrun)
    if engine is None:
        logs = _detached(s, logs)
    if s.text("event_log_handler") not in ("", "null"):
        why = "has no effect: see events.jsonl in --log-dir"
        s.notes.append(f"{s.where('event_log_handler')} {why}")
    if s.said("silence_timeout") and not is_seen(logs, nproc):
        s.does_not_apply(
            "silence_timeout",
            "notices nothing here: output that goes straight to the console, or nowhere, is not "
            "seen; let it have a prefix (--prefix), or tee it to files (-t 3)",
        )
    fields = {"stdin": 0 if engine is None else None, **s.fields("spec")}
    if nproc == 1 and PMI_FD in os.environ:
        from procession.cli.starters import pass_pmi

        fields["pass_fds"], said = pass_pmi(os.environ, fields.get("pass_fds", ()))
        s.notes += said if node.number is not None else []
    spec = make_spec(
        nproc=nproc,
        logs=logs,
        stop=s.policy("stop", Stop),
        restart=s.policy("restart", Restart),
        hang=s.policy("hang", Hang),
        node=node,
        placement=s.policy("placement", Placement, nproc),
        numbered=not torchrun,
        **fields,
        **by_rank(parts, {SIGNALS: s.text("signals_to_handle")}, node.local),
    )
    if engine is None or engine.terms is not None:
        spec = _dealt(spec, s)
    asked = s.fields("run")
    asked["signals"] = _signals(s, asked.get("forward", ()), asked.get("notices", {}))
    notes = [*s.notes, *_other_environment(spec)]
    return Request(spec, s, notes=notes, engine=engine, **asked)


def _other_environment(spec: Spec) -> list[str]:
    """Say that another environment is active than that of the Python which runs the ranks."""
    where = os.environ.get("VIRTUAL_ENV") or os.environ.get("UV_PROJECT_ENVIRONMENT") or ""
    python = os.path.join(where, "bin", "python")
    if not where or not spec.is_python or not os.path.exists(python):
        return []
    if os.path.realpath(where) == os.path.realpath(sys.prefix):
        return []
    return [
        f"ranks run in {sys.prefix}, not in the active environment {where}: install procession "
        f"there, and type {python} -m procession run [P428]"
    ]


def _located(s: Settings, torchrun: bool) -> tuple[Node, EngineRequest | None]:
    """Find out which ranks this launcher has, and what it asks of other machines."""
    started = not torchrun and any(name in os.environ for name in OF_STARTERS)
    if not started and not s.sets("node") and not s.said("engine"):
        s.keep_applicable("", "")
        return ALONE, None
    from procession.cli.location import locate

    return locate(s, torchrun=torchrun)


def _logs(s: Settings, nproc: int, torchrun: bool) -> Logs:
    if not s.sets("logs"):
        return Logs()
    from procession.cli.streams import read_logs

    return read_logs(s, nproc, torchrun=torchrun)


def _detached(s: Settings, logs: Logs) -> Logs:
    """Check that a run that is to be detached can be; its logs then always have a directory."""
    if s.text("stdin") != "none":
        s.not_together("stdin", "detach", "there is no terminal to read")
    if not s.flag("detach") or logs.dir is not None:
        return logs
    from procession.system.directories import state_directory

    directory = state_directory()
    if not directory:
        where = s.where("detach")
        raise SpecError(f"{where}: this user has no home directory: set HOME, or say --log-dir")
    return logs.__replace__(dir=os.path.join(directory, "runs"))


def _signals(s: Settings, forward: Sequence[int], notices: Mapping[int, float]) -> tuple[int, ...]:
    """Give the signals that end the group; those that ranks get do not."""
    for number in forward:
        if number == signal.SIGINT or number in notices:
            name = signal.Signals(number).name
            raise SpecError(f"{s.where('forward')}: {name} ends the group, and is not forwarded")
    return tuple(n for n in s.value("signals_to_handle") if n not in forward)


def _dealt(spec: Spec, s: Settings) -> Spec:
    """Give each rank its devices, if that is asked for."""
    if s.flag("virtual_local_rank"):
        from procession.devices import deal_virtual

        return deal_virtual(spec)
    if s.said("devices"):
        from procession.devices import deal

        return deal(spec, s.text("devices"))
    return spec
