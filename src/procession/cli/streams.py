"""Reads where the output of ranks goes."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from typing import TypeVar

from procession.cli.settings import Settings
from procession.values.errors import SpecError
from procession.values.figures import format_ranks, parse_ranks
from procession.values.policy import Logs, Std

T = TypeVar("T")


def read_logs(s: Settings, nproc: int, *, torchrun: bool = False) -> Logs:
    """Read where output goes. Each refusal names its option.

    Raises SpecError.
    """
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
    logs = Logs(directory, redirect, tee, _prefix(s), ranks, copied["stdout"], copied["stderr"])
    try:
        logs.check(nproc)
    except ValueError as e:
        what, _, why = str(e).partition(": ")
        option = "log_dir" if what == "log directory" else "prefix"
        raise SpecError(f"{s.where(option)}: {why}") from None
    return logs


def _read(s: Settings, option: str, read: Callable[[str], T]) -> T:
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
