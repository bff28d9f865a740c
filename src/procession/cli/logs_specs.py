"""`--logs-specs`: an installed package decides where logs go, by an entry point like torchrun's.

The entry point, of the group `torchrun.logs_specs`, is a class with the constructor and the `reify`
of `procession.elastic.LogsSpecs`, or of torch's class of that name.
"""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from procession.elastic.logs import DefaultLogsSpecs, DestFiles, LogsDest, output_to
from procession.output.wiring import Output, prefixes_of
from procession.prepare.placing import place
from procession.prepare.resources import variables_of
from procession.values.errors import SpecError
from procession.values.policy import Std
from procession.values.spec import Spec

GROUP = "torchrun.logs_specs"
TORCHS = "torch.distributed.elastic.multiprocessing.api"


def plan_output(spec: Spec, name: str, where: str) -> tuple[Spec, Output]:
    """Have the entry point plan the output of a group.

    where: names the option that says so, for a refusal. Raises SpecError.
    """
    run_id = spec.node.run_id or uuid.uuid4().hex
    spec = replace(spec, node=replace(spec.node, run_id=run_id))
    return planned_by(make_specs(spec, name, where), spec)


def make_specs(spec: Spec, name: str, where: str) -> Any:
    """Make what plans the output of a run, also of several groups of it; see `plan_output`."""
    made: Any = _load(name, where)
    std = getattr(sys.modules.get(TORCHS), "Std", Std)  # torch's class tells them apart by type
    logs = spec.logs
    try:
        return made(
            log_dir=logs.dir,
            redirects=_of_type(logs.redirect, std),
            tee=_of_type(logs.tee, std),
            local_ranks_filter=None if logs.ranks is None else set(logs.ranks),
        )
    except (OSError, ValueError, TypeError) as e:
        raise SpecError(f"{where} {name}: {type(e).__name__}: {e}") from None


def planned_by(specs: Any, spec: Spec, _place: str = "") -> tuple[Spec, Output]:
    """Have a `LogsSpecs` plan the output of a group; gives the group with its variables, too."""
    files = _Files(spec, specs)
    prefixes = dict(enumerate(prefixes_of(spec)))
    texts = spec.logs.duplicate_stdout, spec.logs.duplicate_stderr
    output = output_to(spec.name, spec.nproc, files.first, prefixes, texts)
    output = replace(output, files=files)
    env = tuple({**files.added[rank], **own} for rank, own in enumerate(spec.env))
    return replace(spec, env=env), output


def _load(name: str, where: str) -> object:
    from importlib.metadata import entry_points

    if name == "default":  # torch's own: ours is the same, and needs no torch
        return DefaultLogsSpecs
    found = entry_points(group=GROUP)
    names = [each.name for each in found]
    if name not in names:
        there = f"; there are {', '.join(sorted(names))}" if names else "; none is installed"
        raise SpecError(f"{where}: there is no entry point {name!r} in {GROUP}{there}")
    try:
        return next(each for each in found if each.name == name).load()
    except Exception as e:
        raise SpecError(f"{where} {name}: {type(e).__name__}: {e}") from None


def _of_type(chosen: Std | Mapping[int, Std], std: Any) -> Any:
    if isinstance(chosen, Mapping):
        return {rank: std(int(each)) for rank, each in chosen.items()}
    return std(int(chosen))


class _Files(DestFiles):
    """The files of a `LogsSpecs`, which plans each attempt anew.

    first: the plan of the first attempt. added: what it adds to each rank's variables.
    """

    def __init__(self, spec: Spec, specs: Any) -> None:
        self._specs = specs
        self._before = spec.node.attempt - spec.node.regrouped  # where others start groups again
        self._variables = variables_of(spec, os.environ, place(spec, os.environ))
        self._plans: dict[int, LogsDest] = {}
        self.added: dict[int, dict[str, str]] = {}
        self.first = self._plan(0)
        super().__init__(spec.name, self.first)

    def _plan(self, attempt: int) -> LogsDest:
        if attempt not in self._plans:
            count = {"TORCHELASTIC_RESTART_COUNT": str(self._before + attempt)}
            envs = {rank: {**env, **count} for rank, env in enumerate(self._variables)}
            self._plans[attempt] = self._specs.reify(envs)
            if not attempt:
                for rank, before in enumerate(self._variables):
                    news = {n: v for n, v in envs[rank].items() if before.get(n) != v}
                    for name in ("TORCHELASTIC_ERROR_FILE", *count):  # they are the attempt's
                        news.pop(name, None)
                    self.added[rank] = news
        return self._plans[attempt]

    def make_rank_dir(self, attempt: int, rank: int) -> None:
        """Make the directories of a rank's log files. Raises OSError."""
        self._dest = self._plan(attempt)
        super().make_rank_dir(attempt, rank)
