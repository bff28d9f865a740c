"""`procession manifest kubernetes`: what a cluster has to be told to run a command line."""

from __future__ import annotations

import os
import re
import sys
from argparse import SUPPRESS

from procession.cli import COMMANDS
from procession.cli.kubernetes import JOB, JOBSET, Wanted, objects
from procession.cli.options import make_parser as run_parser
from procession.cli.parser import Parser, near
from procession.cli.say import say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Action, Namespace
    from collections.abc import Sequence

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
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
KEY = re.compile(r"([a-z0-9][-a-z0-9.]*/)?[A-Za-z0-9]([-\w.]*[A-Za-z0-9])?", re.ASCII)
VALUE = re.compile(r"([A-Za-z0-9]([-\w.]*[A-Za-z0-9])?)?", re.ASCII)
QUANTITY = re.compile(r"(\d+(?:\.\d+)?)(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?", re.ASCII)
SUFFIXES = {"m": 1e-3, "": 1.0} | {
    letter + i: base ** (power + 1)
    for i, base in (("", 1000.0), ("i", 1024.0))
    for power, letter in enumerate("KMGTPE")
}
SUFFIXES["k"] = 1000.0


class _Parser(Parser):
    """Tells an option that stands on the wrong side of the --."""

    def _find(self, name: str, written: str) -> Action:
        there = [word for each in run_parser().options.values() for word in each.option_strings]
        if name in there and not any(name in o.option_strings for o in self.options.values()):
            self.error(f"{written} is an option of the run: write it behind the --")
        return super()._find(name, written)


def make_parser() -> Parser:
    """Make the parser."""
    parser = _Parser(
        "procession manifest kubernetes",
        hint="; the options of the run stand behind --, see procession manifest --help",
        usage=USAGE,
        description=f"{COMMANDS['manifest'].capitalize()}.",
        epilog=EPILOG,
        argument_default=SUPPRESS,
    )
    _declare(parser)
    return parser


def _declare(parser: Parser) -> None:
    add = parser.add_argument
    add("--image", metavar="IMAGE", help="the container's image")
    add("--kind", metavar="KIND",
        help="jobset (the default), or job, for clusters without JobSet: an Indexed Job with a "
        "headless service")  # fmt: skip
    add("--name", metavar="NAME", help="of all objects (default: after PROGRAM)")
    add("--namespace", metavar="NAME", help="(default: that of kubectl)")
    add("--nnodes", metavar="COUNT", help="how many pods, each with N ranks (default: 1)")
    add("--gpus", metavar="COUNT", help="of each pod")
    add("--gpu-resource", metavar="NAME",
        help="what the cluster calls them (default: nvidia.com/gpu)")  # fmt: skip
    add("--cpu", metavar="REQUEST[:LIMIT]",
        help="CPUs of each pod, for example 16 or 500m (default: no limit)")  # fmt: skip
    add("--memory", metavar="REQUEST[:LIMIT]",
        help="of each pod, for example 64Gi (default: the limit is the request)")  # fmt: skip
    add("--resource", metavar="NAME=QUANTITY", action="append",
        help="another one of each pod, for example rdma/hca=8; may be given several "
        "times")  # fmt: skip
    add("--shm-size", metavar="SIZE",
        help="of /dev/shm, for data loaders; none for the 64 MiB of container runtimes (default: "
        "as much as the pod's memory, of which it is a part)")  # fmt: skip
    add("-x", "--env", metavar="NAME=VALUE", action="append",
        help="a variable of the pods; may be given several times")  # fmt: skip
    add("--service-account", metavar="NAME", help="what pods may do in the cluster")
    add("--label", metavar="NAME=VALUE", action="append",
        help="of all objects and pods, for example kueue.x-k8s.io/queue-name=team; may be given "
        "several times")  # fmt: skip
    add("--node-selector", metavar="NAME=VALUE", action="append",
        help="a label that nodes must have; may be given several times")  # fmt: skip
    add("--backoff-limit", metavar="COUNT",
        help="how many failures of the program's own are followed by another start of all pods "
        "(jobset), or of the pod that failed (job) (default: 0)")  # fmt: skip
    add("--deadline", metavar="SECONDS", help="from the start of the job to its end at the latest")
    add("--grace", metavar="SECONDS",
        help="that ranks and procession have when a pod is taken away (default: 60)")  # fmt: skip
    add("--port", metavar="PORT", help="of pod 0, where ranks meet (default: 29500)")
    add("--output", metavar="FORMAT", help="yaml (the default, where PyYAML is there), or json")


def main(words: list[str]) -> int:
    """Print the objects; returns the exit code."""
    parser = make_parser()
    if not words or words[0] in ("-h", "--help"):
        parser.print_help()
        return 0 if words else 2
    if words[0] not in WHERE:
        meant = near(words[0], WHERE, 0.6)
        hint = f"; did you mean {meant}?" if meant else ": write procession manifest kubernetes"
        parser.error(f"there is no manifest for {words[0]!r}{hint}")
    given, rest = parser.read(words[1:])
    wanted = _wanted(parser, given, rest)
    text = _text(parser, getattr(given, "output", ""), wanted)
    if wanted.nnodes > 1 and "max_restarts" not in _run_options(parser, rest)[0]:
        say(f"procession: {NO_IN_PLACE}\n", sys.stderr)
    say(text, sys.stdout)
    return 0


def _text(parser: Parser, output: str, wanted: Wanted) -> str:
    from procession.cli.objects_text import as_json, as_yaml

    if output not in ("", "yaml", "json"):
        parser.error(f"--output must be yaml or json, not {output!r}")
    found = objects(wanted)
    if output == "json":
        return as_json(found)
    try:
        return as_yaml(found)
    except ImportError:
        if output:
            parser.error(NO_YAML)
        return as_json(found)  # which kubectl takes as well


def _run_options(parser: Parser, rest: Sequence[str]) -> tuple[Namespace, list[str]]:
    run = run_parser()
    run.prog = parser.prog
    return run.read(rest)


def _wanted(parser: Parser, given: Namespace, rest: list[str]) -> Wanted:
    """Put together what is asked for; refuses what cannot be."""
    said, program = _run_options(parser, rest)
    for name, instead in NOT_HERE.items():
        if name in said:
            parser.error(f"--{name.replace('_', '-')} cannot stand behind --: {instead}")
    if not program:
        parser.error("PROGRAM is missing: write -- and what `procession run` is to run in each pod")

    def text(name: str, default: str = "") -> str:
        return getattr(given, name, default)

    if not text("image") or " " in text("image"):
        parser.error("--image is missing: say which image has PROGRAM and procession")
    kind = text("kind", JOBSET)
    if kind not in (JOBSET, JOB):
        parser.error(f"--kind must be {JOBSET} or {JOB}, not {kind!r}")
    shm: str | None = text("shm_size")
    if shm:
        shm = None if shm == "none" else _quantity(parser, "--shm-size", shm)
    requests, limits = _resources(parser, given)
    wanted = Wanted(
        kind=kind,
        name=text("name") or _name_of(program[0]),
        image=text("image"),
        words=tuple(rest),
        nnodes=_number(parser, "--nnodes", text("nnodes", "1"), 1),
        namespace=text("namespace"),
        requests=requests,
        limits=limits,
        env=_pairs(parser, "--env", getattr(given, "env", []), VARIABLE, None),
        labels=_pairs(parser, "--label", getattr(given, "label", []), KEY, VALUE),
        node_selector=_pairs(
            parser, "--node-selector", getattr(given, "node_selector", []), KEY, VALUE
        ),
        service_account=text("service_account"),
        shm=shm,
        deadline=_number(parser, "--deadline", text("deadline"), 1) if text("deadline") else None,
        restarts=_number(parser, "--backoff-limit", text("backoff_limit", "0"), 0),
        grace=_number(parser, "--grace", text("grace", "60"), 1),
        port=_number(parser, "--port", text("port", "29500"), 1, 65535),
        preempt="preempt" not in said,
    )
    _check_names(parser, wanted, given)
    return wanted


def _check_names(parser: Parser, wanted: Wanted, given: Namespace) -> None:
    if not NAME.fullmatch(wanted.name):
        parser.error(
            f"--name must be small letters, digits and dashes, and begin with a letter, not "
            f"{wanted.name!r}"
        )
    most = wanted.longest_name
    if len(wanted.name) > most:
        if hasattr(given, "name"):
            parser.error(f"--name {wanted.name!r} is too long: pods' names leave room for {most}")
        parser.error(f"PROGRAM's name is too long for a pod: say --name, {most} characters at most")
    if wanted.namespace and not (LABEL.fullmatch(wanted.namespace) and len(wanted.namespace) < 64):
        parser.error(f"--namespace must be small letters, digits and dashes: {wanted.namespace!r}")
    account = wanted.service_account
    if account and not all(LABEL.fullmatch(part) for part in account.split(".")):
        parser.error(f"--service-account must be small letters, digits and dashes: {account!r}")


def _name_of(program: str) -> str:
    """Make a name of a program's: of path/my_train.py and my.train, my-train."""
    stem = os.path.basename(program).removesuffix(".py")
    name = re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-")
    return name if NAME.fullmatch(name) else f"run-{name}".strip("-")


def _resources(parser: Parser, given: Namespace) -> tuple[dict[str, str], dict[str, str]]:
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}
    for name in ("cpu", "memory"):
        if not hasattr(given, name):
            continue
        option = f"--{name}"
        least, colon, most = getattr(given, name).partition(":")
        requests[name] = _quantity(parser, option, least)
        if colon:
            limits[name] = _quantity(parser, option, most)
            if _amount(most) < _amount(least):
                parser.error(f"{option}: the limit {most} is below the request {least}")
        elif name == "memory":
            limits[name] = requests[name]
    whole: dict[str, str] = {}
    gpus = getattr(given, "gpus", "")
    resource = getattr(given, "gpu_resource", "nvidia.com/gpu")
    if gpus:
        if not KEY.fullmatch(resource):
            parser.error(f"--gpu-resource must be a name such as amd.com/gpu, not {resource!r}")
        whole[resource] = str(_number(parser, "--gpus", gpus, 1))
    elif hasattr(given, "gpu_resource"):
        parser.error("--gpu-resource needs --gpus COUNT")
    others = _pairs(parser, "--resource", getattr(given, "resource", []), KEY, None)
    for name, value in others.items():
        if name in ("cpu", "memory"):
            parser.error(f"--resource {name}: write --{name}")
        whole[name] = _quantity(parser, f"--resource {name}", value)
    return requests | whole, limits | whole


def _quantity(parser: Parser, option: str, text: str) -> str:
    if not QUANTITY.fullmatch(text) or not _amount(text):
        parser.error(f"{option} must be a quantity such as 16, 500m or 64Gi, not {text!r}")
    return text


def _amount(text: str) -> float:
    found = QUANTITY.fullmatch(text)
    return float(found[1]) * SUFFIXES[found[2] or ""] if found else 0.0


def _number(parser: Parser, option: str, text: str, least: int, most: int = 2**31 - 1) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 11 and least <= int(text) <= most):
        upto = f" to {most}" if most < 2**31 - 1 else " or more"
        parser.error(f"{option} must be a number of {least}{upto}, not {text!r}")
    return int(text)


def _pairs(
    parser: Parser,
    option: str,
    words: Sequence[str],
    names: re.Pattern[str],
    values: re.Pattern[str] | None,
) -> dict[str, str]:
    found: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        fits = values is None or (values.fullmatch(value) and len(value) < 64)
        if not equals or not names.fullmatch(name) or not fits:
            parser.error(f"{option} must be NAME=VALUE, as Kubernetes allows them, not {word!r}")
        found[name] = value
    return found


__all__ = ["main", "make_parser"]
