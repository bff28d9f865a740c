"""Turns the settings into a request: what is to be run. Starts nothing, and changes nothing.

The modules that read the options of one subject are imported only if one of them is set.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType

from procession.cli.options import APART, OPTIONS, make_parser
from procession.cli.programs import by_rank, read_parts
from procession.cli.settings import Settings, gather
from procession.values.base import Value
from procession.values.environment import ALONE, Node
from procession.values.errors import SpecError
from procession.values.figures import format_ranks, parse_ranks
from procession.values.placement import Placement
from procession.values.policy import Hang, Logs, Restart, Std, Stop
from procession.values.spec import Spec, audible, is_seen, make_spec
from procession.worker.breakpoints import PORT, POST_MORTEM

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from procession.cli.location import EngineRequest

# One of these is set where this command was started once per machine or rank; see `location`.
OF_STARTERS = ("OMPI_COMM_WORLD_SIZE", "MPI_LOCALNRANKS", "SLURM_STEP_NUM_TASKS")
PMI_FD = "PMI_FD"  # the descriptor by which an MPI program speaks to mpiexec or srun
SIGNALS = "TORCHELASTIC_SIGNALS_TO_HANDLE"


class Request(Value):
    """What a command line asks for.

    spec: the group; with an engine, what each node runs. settings: what was said, and where. dry:
    only say what would be run. json: print the result on stdout. signals: those that end the group.
    forward: those that each rank gets. notices: those that announce the end, with the seconds that
    are left then. notes: lines to print before it runs. logs_specs: the entry point that lays out
    logs. live: show a view of the group while it runs. status: seconds between two lines about it,
    or None. detach: give the terminal back. debug: debug the first rank that raises; False:
    no rank can be debugged. debugpy: the port of the first rank for editors, None without. verbose:
    print notes that are printed once. engine: what is asked of an engine, None on this machine.
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
    live: bool = False
    status: float | None = None
    detach: bool = False
    debug: bool | None = None
    debugpy: int | None = None
    verbose: bool = False
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
    python = rest[1:] and rest[0].endswith(".py") and not torchrun
    if python and rest[1].startswith("-") and "--" not in words[: -len(rest)]:
        from procession.cli.misplaced import misplaced

        s.notes += misplaced(rest, parser.named, given)
    for one, other, why in APART:
        s.not_together(one, other, why)
    node, engine = _located(s, torchrun)
    parts = read_parts(parser, s, rest, torchrun=torchrun)
    nproc = sum(part.nproc for part in parts)
    if engine is not None and engine.terms is None and not s.text("nproc_per_node").isdecimal():
        s.notes.append(f"{s.where('nproc_per_node')} counts this machine: each gets {nproc} ranks")
    if node.number is not None:
        from procession.cli.location import check_one_rank

        check_one_rank(s, node, nproc)
    logs = _logs(s, nproc, torchrun)
    if engine is None:
        logs = _detached(s, logs)
    if s.text("event_log_handler") not in ("", "null"):
        where = s.where("event_log_handler")
        s.notes.append(f"{where} has no effect: see events.jsonl in --log-dir")
    if s.said("silence_timeout") and not is_seen(audible(logs), nproc):
        s.does_not_apply(
            "silence_timeout",
            "notices nothing here: output that goes straight to the console, or nowhere, is not "
            "seen; let it have a prefix (--prefix), or tee it to files (-t 3)",
        )
    fields: dict[str, Any] = {"stdin": 0 if engine is None else None, **s.fields("spec")}
    if nproc == 1 and PMI_FD in os.environ:
        fields["pass_fds"], said = _pass_pmi(os.environ, fields.get("pass_fds", ()))
        s.notes += said if node.number is not None else []
    common = {SIGNALS: s.text("signals_to_handle"), **_debugging(s)}
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
        **by_rank(parts, common, node.local),
    )
    if not spec.is_python:
        for option in ("debug", "debugpy"):
            s.does_not_apply(option, "is for Python programs, and PROGRAM is none")
    if engine is None or engine.terms is not None:
        spec = _dealt(spec, s)
    asked = s.fields("run")
    asked["signals"] = _signals(s, asked.get("forward", ()), asked.get("notices", {}))
    notes = [*s.notes, *_other_environment(spec)]
    return Request(spec, s, notes=notes, engine=engine, **asked)


def _debugging(s: Settings) -> dict[str, str]:
    """Give the variables by which ranks know how they are debugged."""
    post_mortem = {POST_MORTEM: "1"} if s.flag("debug") else {}
    return {**post_mortem, PORT: s.text("debugpy")} if s.said("debugpy") else post_mortem


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


def _pass_pmi(env: Mapping[str, str], passed: Sequence[int]) -> tuple[tuple[int, ...], list[str]]:
    """Give the descriptors that a rank inherits, and what is to be said.

    Hydra, and srun --mpi=pmi2, serve an MPI program by the descriptor that PMI_FD names. passed:
    those that were asked for.
    """
    text = env[PMI_FD]
    try:
        os.fstat(int(text))
    except (ValueError, OverflowError, OSError):
        why = f"PMI_FD={text} is no open descriptor: MPI_Init in the rank cannot find the others"
        return tuple(passed), [f"{why}; let mpiexec or srun start procession itself [P427]"]
    return (*passed, int(text)), []


# -- where output goes


def _logs(s: Settings, nproc: int, torchrun: bool) -> Logs:
    """Read where output goes. Each refusal names its option. Raises SpecError."""
    if torchrun:
        shown: dict[str, Any] = {"fold": False}
    else:
        said = s.fields("logs")
        shown = {"all_output": False} | {n: said[n] for n in ("all_output", "fold") if n in said}
    if not s.sets("logs"):
        return Logs(**shown)
    s.not_together("prefix", "log_line_prefix_template", "both say what stands before each line")
    directory = s.text("log_dir") or None
    if s.on_command_line("log_dir") and not directory and not torchrun:
        raise SpecError(f"{s.where('log_dir')} must name a directory, not ''")
    redirect, tee = (_streams(s, option, nproc) for option in ("redirects", "tee"))
    ranks = None
    if s.said("local_ranks_filter"):
        chosen = _read(s, "local_ranks_filter", parse_ranks)
        ranks = _there(s, "local_ranks_filter", chosen, nproc)
    if directory == os.devnull:  # torchrun's word for no files at all
        directory, redirect, tee = None, Std.NONE, Std.NONE
    copied = {stream: s.value(f"duplicate_{stream}_filters") for stream in ("stdout", "stderr")}
    teed = [*tee.values()] if isinstance(tee, dict) else [tee]
    for (stream, texts), bit in zip(copied.items(), (Std.OUT, Std.ERR), strict=True):
        if texts and not any(each & bit for each in teed):
            where = s.where(f"duplicate_{stream}_filters")
            s.notes.append(f"{where} copies nothing: it is for what -t/--tee sends to files")
    texts = {f"duplicate_{stream}": texts for stream, texts in copied.items()}
    logs = Logs(directory, redirect, tee, _prefix(s), ranks, **texts, **shown)
    try:
        logs.check(nproc)
    except ValueError as e:
        what, _, why = str(e).partition(": ")
        option = "log_dir" if what == "log directory" else "prefix"
        raise SpecError(f"{s.where(option)}: {why}") from None
    folds = nproc > 1 and bool(shown.get("fold")) and s.on_command_line("fold")
    if folds and not logs.names_several(nproc):
        needs = "needs a prefix with {rank} and without {local_rank}, as [{rank}]"
        raise SpecError(f"{s.where('fold')} {needs}, not {logs.template(nproc) or ''!r}")
    return logs


def _read(s: Settings, option: str, read: Callable[[str], Any]) -> Any:
    try:
        return read(s.text(option))
    except ValueError as e:
        raise SpecError(f"{s.where(option)}: {e}") from None


def _streams(s: Settings, option: str, nproc: int) -> Std | dict[int, Std]:
    chosen = _read(s, option, Std.from_str)
    if isinstance(chosen, Std):
        return chosen
    return {rank: chosen[rank] for rank in _there(s, option, chosen, nproc)} or Std.NONE


def _there(s: Settings, name: str, ranks: Collection[int], nproc: int) -> list[int]:
    """Leave out ranks that do not exist, as torchrun does, and say so."""
    strangers = [rank for rank in ranks if rank >= nproc]
    if strangers:
        there = "there is only rank 0" if nproc == 1 else f"the ranks are 0 to {nproc - 1}"
        s.notes.append(f"{s.where(name)} names {format_ranks(strangers)}, but {there}")
    return [rank for rank in sorted(ranks) if rank < nproc]


def _prefix(s: Settings) -> str:
    given = s.text("log_line_prefix_template")
    if not given or s.on_command_line("prefix"):
        return s.text("prefix")
    from string import Template

    role = s.text("role") or os.environ.get("ROLE_NAME", "default")
    fields = {"rank": "rank", "local_rank": "local_rank", "hostname": "host"}
    marked = {name: f"\0{field}\0" for name, field in fields.items()}
    text = Template(given).safe_substitute(marked, role_name=role)
    text = text.replace("{", "{{").replace("}", "}}")
    for field in fields.values():
        text = text.replace(f"\0{field}\0", f"{{{field}}}")
    return text
