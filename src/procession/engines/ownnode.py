"""What a node process knows of its node where a launcher of that node was started by somebody.

Launchers that were started one on each machine may have been given different numbers: when ranks
stop, hang and start again. Those of the launcher that hosts the rendezvous count on all machines.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

from procession.output.wiring import Output, output_of
from procession.system.origin import is_in_slurm_job
from procession.values.base import Record
from procession.values.policy import Hang, Restart, Stop
from procession.values.spec import Spec

Numbers = dict[str, dict[str, Any]]  # by the policy, then by its field, as JSON can hold them
NAME = re.compile(r"(?!\.)[\w.@+-]{1,255}", re.ASCII)


def plan_output(spec: Spec, place: str) -> tuple[Spec, Output]:
    """Plan the output of an attempt as ever; see `OwnNode.plan`."""
    return spec, output_of(spec, place)


class OwnNode(Record):
    """A node process that is no process, but a part of the launcher of its node.

    Its ranks run what this launcher was asked for, and write to its console.

    spec: what its ranks run. greeting: further fields of its greeting. address: where ranks of
    other nodes find this one, "" for that of the link. meets: where all ranks meet, as this
    launcher was told; ("", 0) where node 0 chooses it. patience: seconds in which the driver must
    be found. answer: seconds for its answer. signals: those that are passed on to the driver; none
    unless it runs in the main thread. ending: those of them that end the run. say: shows a line.
    hears: shows one that the driver has said to all. waits: called with the reason, each time that
    the driver was not found; tells whether to look no further. values, errors: what the ranks of
    the last attempt sent, pickled, by local rank; they stay on this machine. first: what number the
    first of them had. heir: the name of this launcher, the port at which it listens in case that it
    takes over, whether it is the host, and when the host before was lost; see `will`. learns: where
    the host tells the key of a link, reads it; see `rendezvous.munge`. plan: plans the output of an
    attempt, in a directory, "" for none, and may give its ranks more variables. told: the last line
    of `tell_once`. options: the names of options by what they set, for people who gave options.
    """

    spec: Spec
    greeting: Mapping[str, Any]
    address: str
    patience: float
    answer: float
    signals: tuple[int, ...]
    say: Callable[[str], None]
    hears: Callable[[str], None]
    waits: Callable[[str], bool]
    values: dict[int, bytes | bytearray | memoryview]
    errors: dict[int, dict[str, Any]]
    first: int = 0
    heir: tuple[str, int, bool, float] | None = None
    plan: Callable[[Spec, str], tuple[Spec, Output]] = plan_output
    meets: tuple[str, int] = ("", 0)
    learns: Callable[[socket.socket], bytes] | None = None
    ending: frozenset[int] = frozenset()
    told: str = ""
    options: Mapping[str, str] = {}

    def tell_once(self, text: str) -> None:
        """Show a line, unless it is empty or was the last one that this has shown."""
        if text and text != self.told:
            self.told = text
            self.say(text)

    def adopt(self, numbers: Mapping[str, Any], lease: float) -> None:
        """Let the numbers of the whole job count here, and say which ones differ from our own.

        numbers, lease: of the host, see `numbers_of`. Raises ValueError, TypeError or KeyError.
        """
        before = numbers_of(self.spec, self.greeting["lease"])
        self.spec = with_numbers(self.spec, numbers)
        self.tell_once(say_difference(before, numbers_of(self.spec, lease), self.options))

    def ends_at(self, number: int) -> bool:
        """Whether a person may end the run by this signal. Slurm sends SIGTERM twice."""
        by_slurm = number == signal.SIGTERM and is_in_slurm_job(os.environ)
        return number in self.ending and not by_slurm

    def hears_again(self, number: int, before: int) -> bool:
        """Whether a person ends the run by this signal a second time. before: the last signal."""
        return before in self.ending and self.ends_at(number)

    def place(self, said: str) -> str:
        """Give the directory of a run's files here. said: that of the driver, "" for none.

        Only names are taken from the driver: the directory is our own --log-dir.
        """
        run, node = said.split("/")[-2:] if "/" in said else ("", "")
        if not NAME.fullmatch(run) or not NAME.fullmatch(node):
            return ""
        base = self.spec.logs.dir or tempfile.gettempdir()
        return os.path.join(os.path.abspath(base), run, node)


def numbers_of(spec: Spec, lease: float) -> Numbers:
    """Give the numbers of a job."""
    stop, hang, restart = ({**vars(each)} for each in (spec.stop, spec.hang, spec.restart))
    stop["signal"], restart["never"] = int(stop["signal"]), sorted(restart["never"])
    return {"engine": {"lease": lease}, "stop": stop, "hang": hang, "restart": restart}


def with_numbers(spec: Spec, numbers: Mapping[str, Any]) -> Spec:
    """Give the spec with these numbers. Raises ValueError, TypeError or KeyError."""
    given: dict[str, Any] = {**numbers["restart"], "never": tuple(numbers["restart"]["never"])}
    stop, hang, restart = Stop(**numbers["stop"]), Hang(**numbers["hang"]), Restart(**given)
    for each in (stop, hang, restart):
        each.check()
    return spec.__replace__(stop=stop, hang=hang, restart=restart)


def say_difference(own: Numbers, host: Numbers, options: Mapping[str, str]) -> str:
    """Say which numbers of the host differ from those of this launcher, "" if none does.

    options: see `OwnNode`.
    """
    found = [
        f"{options.get(f'{policy}.{field}', field)} {theirs} (here {own[policy][field]})"
        for policy, fields in host.items()
        for field, theirs in fields.items()
        if theirs != own[policy][field]
    ]
    if not found:
        return ""
    return (
        f"the launcher that hosts the rendezvous was given other numbers, which count on all "
        f"machines: {', '.join(found)}; give all launchers the same options"
    )
