"""Reads where the output of ranks goes."""

from __future__ import annotations

import os
from collections.abc import Collection

from procession.cli.settings import Settings
from procession.values.base import cast
from procession.values.errors import SpecError
from procession.values.policy import Logs, Std
from procession.values.ranks import format_ranks, parse_ranks


def read_logs(s: Settings, nproc: int, *, torchrun: bool = False) -> tuple[Logs, list[str]]:
    """Read where output goes; also what is to be said about it. Each refusal names its option.

    Raises SpecError.
    """
    s.not_together("prefix", "log_line_prefix_template", "both say what stands before each line")
    directory = s.text("log_dir") or None
    if s.on_command_line("log_dir") and not directory and not torchrun:
        raise SpecError(f"{s.where('log_dir')} must name a directory, not ''")
    notes: list[str] = []
    option, word = "redirects", "redirect"
    try:
        redirect = _streams(s, "redirects", nproc, notes)
        Logs(redirect=redirect).check(nproc)
        option, word = "tee", "tee"
        tee = _streams(s, "tee", nproc, notes)
        Logs(tee=tee).check(nproc)
        option, word = "local_ranks_filter", "ranks"
        ranks = None
        if s.said(option):
            ranks = _there(s, option, parse_ranks(s.text(option)), nproc, notes)
            Logs(ranks=ranks).check(nproc)
        option, word = "prefix", "prefix"
        prefix = _prefix(s)
        Logs(prefix=prefix).check(nproc)
        option, word = "log_dir", "log directory"
        if directory == os.devnull:  # torchrun's word for no files at all
            directory, redirect, tee = None, Std.NONE, Std.NONE
        Logs(dir=directory).check(nproc)
    except ValueError as e:
        raise SpecError(f"{s.where(option)}: {str(e).removeprefix(f'{word}: ')}") from None
    copied = {stream: s.value(f"duplicate_{stream}_filters") for stream in ("stdout", "stderr")}
    for stream, texts in copied.items():
        bit = Std.OUT if stream == "stdout" else Std.ERR
        chosen = tee.values() if isinstance(tee, dict) else [tee]
        if texts and not any(each & bit for each in chosen):
            where = s.where(f"duplicate_{stream}_filters")
            notes.append(f"{where} copies nothing: it is for what -t/--tee sends to files")
    logs = Logs(directory, redirect, tee, prefix, ranks, copied["stdout"], copied["stderr"])
    return logs, notes


def _streams(s: Settings, name: str, nproc: int, notes: list[str]) -> Std | dict[int, Std]:
    chosen = Std.from_str(s.text(name))
    if not isinstance(chosen, dict):
        return chosen
    kept = _there(s, name, chosen, nproc, notes)
    return {rank: chosen[rank] for rank in kept} or Std.NONE


def _there(
    s: Settings, name: str, ranks: Collection[int], nproc: int, notes: list[str]
) -> list[int]:
    """Leave out ranks that do not exist, as torchrun does, and say so."""
    strangers = [rank for rank in ranks if rank >= nproc]
    if strangers:
        there = "there is only rank 0" if nproc == 1 else f"the ranks are 0 to {nproc - 1}"
        notes.append(f"{s.where(name)} names {format_ranks(strangers)}, but {there}")
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


def chosen_streams(logs: Logs) -> tuple[Std | dict[int, Std], Std | dict[int, Std]]:
    """Give what is redirected and what is teed."""
    return cast("Std | dict[int, Std]", logs.redirect), cast("Std | dict[int, Std]", logs.tee)
