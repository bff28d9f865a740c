"""What a command line asks for, put together from what is said in it and elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

from procession.cli.counts import is_number
from procession.cli.life import (
    check_without_effect,
    read_restart,
    read_signals,
    read_start_method,
    read_stop,
)
from procession.cli.options import TORCHRUN, TORCHRUN_USAGE, make_parser
from procession.cli.output import read_logs
from procession.cli.parts import Part, by_rank, read_parts
from procession.cli.rendezvous import read_node
from procession.cli.settings import Settings, gather
from procession.errors import SpecError
from procession.output.plan import Output
from procession.spec import Spec, make_spec

RUN, TORCHRUN_PROG = "procession run", "procession-torchrun"


class Asked(NamedTuple):
    """What a command line asks for.

    dry: only to say what would be run. json: the result on stdout. signals: those that end the
    group. notes: what is to be said before it runs. logs_specs: the entry point that lays out logs.
    """

    spec: Spec
    dry: bool = False
    json: bool = False
    signals: Sequence[int] = ()
    notes: Sequence[str] = ()
    logs_specs: str = ""

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
    parser = make_parser(TORCHRUN_PROG, TORCHRUN_USAGE) if torchrun else make_parser()
    given, rest = parser.read(words)
    strange = vars(given).keys() - TORCHRUN if torchrun else ()
    for name in sorted(strange):
        option = "/".join(parser.options[name].option_strings)
        parser.error(f"torchrun has no option {option}; write `{RUN}` to use it")
    s = gather(parser, given)
    node = read_node(s)
    parts = read_parts(parser, s, rest, torchrun=torchrun)
    nproc = sum(part.nproc for part in parts)
    logs, notes = read_logs(s, nproc, torchrun=torchrun)
    stop, restart, signals = read_stop(s), read_restart(s), read_signals(s)
    notes += check_without_effect(s)
    spec = make_spec(
        nproc=nproc,
        start_method=read_start_method(s),
        stdin=_stdin(s, nproc),
        logs=logs,
        stop=stop,
        restart=restart,
        preload=_preload(s.text("preload")),
        learn=not s.flag("no_learn"),
        node=node,
        **by_rank(parts),
    )
    return Asked(
        _dealt(_with_signals(spec, s), s, parts),
        dry=s.flag("dry_run"),
        json=s.flag("json"),
        signals=signals,
        notes=notes,
        logs_specs=s.text("logs_specs"),
    )


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
    return None if text == "none" else text.split(",")


def _with_signals(spec: Spec, s: Settings) -> Spec:
    """Tell the ranks which signals are handled, as torchrun does."""
    told = {"TORCHELASTIC_SIGNALS_TO_HANDLE": s.text("signals_to_handle")}
    return replace(spec, env=tuple({**told, **env} for env in spec.env))


def _dealt(spec: Spec, s: Settings, parts: Sequence[Part]) -> Spec:
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
