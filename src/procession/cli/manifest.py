"""`procession manifest kubernetes`: prints the objects by which a cluster runs a command line."""

from __future__ import annotations

import os
import re
import sys
from typing import Any

from procession.cli.commands import COMMANDS
from procession.cli.kubernetes import patch_files, readers
from procession.cli.kubernetes.objects import JOBSET, PodFields, Wanted, objects
from procession.cli.kubernetes.options import OPTIONS
from procession.cli.options import OPTIONS as RUN_OPTIONS
from procession.cli.request import make_parser as run_parser
from procession.cli.say import say, say_note
from procession.cli.settings import Settings
from procession.cli.words import Given, Option, Parser, near
from procession.values.errors import SpecError

WHERE = ("kubernetes",)
USAGE = "procession manifest kubernetes --image IMAGE [options] -- [options of run] PROGRAM [ARGS]"
EPILOG = """\
What stands behind -- is a command line of `procession run`, without the options that number
machines: each pod is one, and is told its number and where ranks meet. In the image, `procession`
must be on the PATH.

A pod that is taken away is not counted as a failure. Exit code 78 ends the job for good.

examples:
  procession manifest kubernetes --image ghcr.io/me/train:1 --nnodes 4 --gpus 8 --cpu 16 \\
      --memory 64Gi -- -n 8 --max-restarts 2 train.py --epochs 3 | kubectl apply -f -
  procession manifest kubernetes --kind job --image me/train:1 -- -n 2 train.py
"""
# Of a run: what the manifest says itself, and what would not be one.
NOT_HERE = {
    "nnodes": "say --nnodes before the --",
    "node_rank": "each pod finds its number by itself",
    "master_addr": "each pod is told where pod 0 is",
    "master_port": "say --port before the --",
    "rdzv_endpoint": "each pod is told where pod 0 is",
    "rdzv_backend": "pods are numbered by the Job",
    "standalone": "leave out --nnodes for one pod",
    "local_addr": "each pod is told where pod 0 is",
    "detach": "the pod would end at once",
    "dry_run": "the pods would run nothing",
}
NO_YAML = "PyYAML is missing: pip install 'procession[kubernetes]', or write --output json"
NO_IN_PLACE = """\
when a pod is taken away, the ranks of the others fail soon; without --max-restarts behind the --, \
that may be counted as a failure of the program (see docs/kubernetes.md)"""
LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


class _Parser(Parser):
    """Refuses an option that stands on the wrong side of the --, and says so."""

    def find(self, name: str, written: str) -> Option:
        there = any(name in option.names for option in RUN_OPTIONS.values())
        if there and not any(name in option.names for option in self.options.values()):
            self.error(f"{written} is an option of the run: write it behind the --")
        return super().find(name, written)


PARSER = _Parser(
    "procession manifest kubernetes",
    OPTIONS,
    hint="; the options of the run stand behind --, see procession manifest --help",
    usage=USAGE,
    description=f"{COMMANDS['manifest'].capitalize()}.",
    epilog=EPILOG,
)


def main(words: list[str]) -> int:
    """Print the objects; returns the exit code."""
    if not words or words[0] in ("-h", "--help"):
        PARSER.print_help()
        return 0 if words else 2
    if words[0] not in WHERE:
        meant = near(words[0], WHERE, 0.6)
        hint = f"; did you mean {meant}?" if meant else ": write procession manifest kubernetes"
        PARSER.error(f"there is no manifest for {words[0]!r}{hint}")
    given, rest = PARSER.read(words[1:])
    settings = Settings(PARSER.options)
    for key, value in vars(given).items():
        settings.add(key, value)
    run = run_parser()
    run.prog = PARSER.prog
    of_run, program = run.read(rest)
    try:
        wanted = _wanted(settings, of_run, program, rest)
        made = _patched(objects(wanted), settings.list("patch"))
        text = _text(settings.value("output") if settings.said("output") else "", made)
    except SpecError as e:
        PARSER.error(str(e))
    if wanted.nnodes > 1 and "max_restarts" not in of_run:
        say_note(NO_IN_PLACE)
    say(text, sys.stdout)
    return 0


def _patched(made: list[dict[str, Any]], files: list[str]) -> list[dict[str, Any]]:
    for file in files:
        try:
            made = patch_files.applied(made, file)
        except (OSError, ValueError, ImportError) as e:
            raise SpecError(f"--patch {file}: {patch_files.said(e)}") from None
    return made


def _text(output: str, found: list[dict[str, Any]]) -> str:
    from procession.cli.kubernetes.objects_text import as_json, as_yaml

    if output == "json":
        return as_json(found)
    try:
        return as_yaml(found)
    except ImportError:
        if output:
            raise SpecError(NO_YAML) from None
        return as_json(found)  # which kubectl takes as well


def _wanted(s: Settings, of_run: Given, program: list[str], words: list[str]) -> Wanted:
    """Put together what is asked for.

    of_run, program: the options of the run, and what stands behind them. words: all of these.
    Raises SpecError.
    """
    for name, instead in NOT_HERE.items():
        if name in of_run:
            raise SpecError(f"--{name.replace('_', '-')} cannot stand behind --: {instead}")
    if not program:
        raise SpecError(
            "PROGRAM is missing: write -- and what `procession run` is to run in each pod"
        )
    if not s.said("image") or " " in s.text("image"):
        raise SpecError("--image is missing: say which image has PROGRAM and procession")
    requests, limits = _resources(s)
    wanted: dict[str, Any] = {"kind": JOBSET, "name": _name_of(program[0])}
    wanted |= s.fields("wanted")
    for name in wanted.keys() & {"env", "labels", "node_selector"}:
        wanted[name] = dict(wanted[name])
    pod = s.fields("pod")
    if s.flag("restricted") and pod.get("user") == 0:
        raise SpecError("--run-as 0: --restricted does not allow root")
    volumes, mounts = readers.volumes(s.list("volume"), "--volume", restricted=s.flag("restricted"))
    made = Wanted(
        **wanted,
        words=tuple(words),
        requests=requests,
        limits=limits,
        preempt="preempt" not in of_run,
        fields=PodFields(**pod, volumes=tuple(volumes), mounts=tuple(mounts)),
    )
    _check_names(made, named=s.said("name"))
    return made


def _check_names(wanted: Wanted, *, named: bool) -> None:
    """Look at the names of objects. named: whether --name was given. Raises SpecError."""
    small = "must be small letters, digits and dashes"
    name, most = wanted.name, wanted.longest_name
    if not NAME.fullmatch(name):
        raise SpecError(f"--name {small}, and begin with a letter, not {name!r}")
    if len(name) > most and named:
        raise SpecError(f"--name {name!r} is too long: pods' names leave room for {most}")
    if len(name) > most:
        raise SpecError(
            f"PROGRAM's name is too long for a pod: say --name, {most} characters at most"
        )
    if wanted.namespace and not (LABEL.fullmatch(wanted.namespace) and len(wanted.namespace) < 64):
        raise SpecError(f"--namespace {small}: {wanted.namespace!r}")
    account = wanted.service_account
    if account and not all(LABEL.fullmatch(part) for part in account.split(".")):
        raise SpecError(f"--service-account {small}: {account!r}")


def _name_of(program: str) -> str:
    """Make a name of a program's: of path/my_train.py and my.train, my-train."""
    stem = os.path.basename(program).removesuffix(".py")
    name = re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-")
    return name if NAME.fullmatch(name) else f"run-{name}".strip("-")


def _resources(s: Settings) -> tuple[dict[str, str], dict[str, str]]:
    """Give the requests and the limits of each pod. Raises SpecError."""
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}
    for name in ("cpu", "memory"):
        if not s.said(name):
            continue
        requests[name], most = s.value(name)
        if most or name == "memory":
            limits[name] = most or requests[name]
    whole: dict[str, str] = {}
    if s.said("gpus"):
        whole[s.value("gpu_resource")] = str(s.value("gpus"))
    elif s.said("gpu_resource"):
        raise SpecError("--gpu-resource needs --gpus COUNT")
    whole |= dict(s.value("resource"))
    return requests | whole, limits | whole
