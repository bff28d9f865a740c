"""`procession run --dry-run`: what would be run, its variables, and what would be preloaded."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence

from procession.agent.boot import interpreter_flags
from procession.output.text import shown
from procession.preload.choose import plan_of, preload_of
from procession.preload.plan import explain
from procession.prepare.placing import place
from procession.prepare.resources import variables_of
from procession.values.figures import fold_ranks
from procession.values.masking import masked, masked_words
from procession.values.program import Command, Module, words_of
from procession.values.shared import name_of
from procession.values.spec import Spec

# What stands for values that are not known before the group is started.
LATER = {"MASTER_PORT": "0", "TORCHELASTIC_RUN_ID": "",
         "TORCHELASTIC_ERROR_FILE": ""}  # fmt: skip


def describe(spec: Spec, settings: Sequence[str] = ()) -> str:
    """Say what would be run. settings: options that variables and files set, in words."""
    env = dict(os.environ)
    placed = place(spec, env)
    by_rank = variables_of(spec, env, placed)
    commands = [_command(spec, rank) for rank in range(spec.nproc)]
    one = len(set(commands)) == 1
    what = commands[0] if one else "several command lines"
    lines = [f"{spec.nproc} {'rank' if spec.nproc == 1 else 'ranks'} of: {what}"]
    if spec.node.number is not None:
        lines.append(f"which is rank {spec.node.number} of {spec.node.world} of the job")
    elif spec.node.count > 1:
        lines.append(f"on node {spec.node.rank} of {spec.node.count}, with as many on each")
    added = [_added(env, variables) for variables in by_rank]
    common = {n: v for n, v in added[0].items() if all((n, v) in a.items() for a in added)}
    lines.append(f"in {spec.cwd}, with the variables of this shell, and")
    lines.append(f"  all ranks: {_words(common)}")
    for rank, variables in enumerate(added):
        own = {n: v for n, v in variables.items() if n not in common}
        cpus = f" on CPUs {fold_ranks(placed.cpus[rank])}" if placed.cpus else ""
        lines.append(f"  rank {rank}: {_words(own)}{cpus}")
        if not one:
            lines.append(f"    runs {commands[rank]}")
    if spec.placement.given:
        words = (f"{name}={value!r}" for name, value in spec.placement.given.items())
        lines.append(f"each rank has {', '.join(words)}")
    if spec.shared is not None:
        lines.append(f"loaded once, and shared: {name_of(spec.shared)}")
    if spec.warm is not None:
        lines.append(f"its imports are kept for {spec.warm:g} s, and taken from what is kept")
    if settings:
        lines.append(f"options set elsewhere: {', '.join(masked_words(settings))}")
    return "\n".join(map(shown, [*lines, *_preloaded(spec, by_rank)])) + "\n"


def _command(spec: Spec, rank: int) -> str:
    program = spec.program_of(rank)
    words = masked_words(spec.filled([*words_of(program), *map(str, spec.args[rank])], rank))
    if isinstance(program, Command):
        return shlex.join(words)
    python = [sys.executable, *interpreter_flags(), *["-m"] * isinstance(program, Module)]
    return shlex.join([*python, *words])


def _added(env: dict[str, str], variables: dict[str, str]) -> dict[str, str | None]:
    """Give the variables in which a rank differs from this process; None is for one it lacks."""
    names = sorted(n for n in env.keys() | variables.keys() if env.get(n) != variables.get(n))
    return {n: variables.get(n) for n in names if variables.get(n, "-") != LATER.get(n)}


def _words(variables: dict[str, str | None]) -> str:
    shown = masked(variables)
    return " ".join(f"-u {n}" if v is None else shlex.join([f"{n}={v}"]) for n, v in shown.items())


def _preloaded(spec: Spec, by_rank: list[dict[str, str]]) -> list[str]:
    if not spec.is_python:
        return ["nothing is preloaded: it is not run by this Python"]
    plan = plan_of(spec)
    if plan is None:
        if spec.programs and spec.preload == "auto":
            return ["nothing is preloaded: there are several programs"]
        return ["nothing is preloaded, as asked"]
    lines = explain(plan)
    wanted = preload_of(spec, plan, by_rank).modules
    left = [name for name in (*plan.modules, *plan.later) if name not in wanted]
    if left:
        lines.append(f"but not {', '.join(left)}: ranks differ in variables that these read")
    return lines
