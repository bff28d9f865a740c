"""A command run as a batch job of Slurm: sent, shown, waited for, cancelled.

The job's script *is* the command (`exec`), so that what Slurm sends to the batch script alone
(`--signal=B:...`, `scancel --batch`) reaches the driver, which ends its agents in order; srun and
the agents get none of it. The output file is read as it grows, not watched: it may lie on a
network's file system.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import BinaryIO

from procession.engines.contract import EngineError
from procession.engines.slurm.commands import Needs, batch_command, batch_script
from procession.engines.slurm.processes import ask
from procession.explain.messages import noted
from procession.output.escape import shown

LOOK_EVERY = 0.1  # seconds between two looks at the output
ASK_EVERY = (0.5, 3.0)  # seconds between two questions to the controller: at first, at last
CANCELLED_CODE = 130
FACT = re.compile(r"(?:^|(?<=\s))([^\s=]+)=(.*?)(?=\s+[^\s=]+=|$)", re.DOTALL)
NOT_OVER = {
    "PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING",
    "RESIZING", "STAGE_OUT", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT",
}  # fmt: skip


def submit(
    command: Iterable[str],
    *,
    name: str = "procession",
    nodes: int | None = None,
    time: str = "",
    partition: str = "",
    account: str = "",
    needs: Needs | None = None,
    arguments: Iterable[str] = (),
    detach: bool = False,
    grace: float = 30.0,
    say: Callable[[str], None] | None = None,
) -> int:
    """Run a command line as a batch job; gives the job's exit code.

    nodes, time, partition, account: as `sbatch` takes them. needs: CPUs and GPUs to ask for on
        each node; None asks for none. arguments: further options of sbatch.
    detach: say which job it is and where its output goes, and return 0 when it is sent.
    grace: seconds that the command has to end after Ctrl-C, before the job is cancelled.
    say: takes a line for people; by default they go to stderr. The job's output goes to stdout.

    Ctrl-C, or SIGTERM, sends the command SIGTERM, and cancels the job after `grace`, or at once
    when it comes again. Raises EngineError, with sbatch's own words, if the job cannot be sent.
    """
    line = batch_command(
        name=name, nodes=nodes, time=time, partition=partition, account=account, needs=needs,
        arguments=arguments,
    )  # fmt: skip
    say = say or _say
    with _interrupts() as count:
        script, hidden = batch_script(command)
        sent = ask(line, {**os.environ, **hidden}, script)
        job = sent.strip().partition(";")[0]
        facts = facts_of(job)
        where = facts.get("StdOut", "")
        say(f"job {job}{f'; its output is in {where}' if where else ''}")
        if detach:
            return 0
        shown = _Output(where, sys.stdout.buffer)
        return _Following(job, shown, say, count, grace).follow()


class _Following:
    """The wait for a job."""

    def __init__(
        self,
        job: str,
        shown: _Output,
        say: Callable[[str], None],
        count: Callable[[], int],
        grace: float,
    ) -> None:
        self._job = job
        self._shown = shown
        self._say = say
        self._count = count
        self._grace = grace
        self._wishes = 0  # signals of the user that have been carried out
        self._cancel_at: float | None = None
        self._state = ""
        self._told = False  # why it waits
        self._ran = False

    def follow(self) -> int:
        """Show the output until the job is over; gives its exit code."""
        pause, most = ASK_EVERY
        due = 0.0
        while True:
            self._shown.more()
            self._obey()
            if time.monotonic() >= due:
                facts = facts_of(self._job)
                self._tell(facts)
                if facts["JobState"] not in NOT_OVER:
                    break
                due = time.monotonic() + (ASK_EVERY[0] if self._wishes else pause)
                pause = min(pause * 1.2, most)
            time.sleep(LOOK_EVERY)
        self._shown.more()
        if self._ran:
            self._shown.missing(self._say)
        return self._code(facts)

    def _obey(self) -> None:
        wishes = self._count()
        if wishes > self._wishes:
            first = self._wishes == 0
            self._wishes = wishes
            if first and self._state == "RUNNING":
                self._say(f"ending job {self._job}; once more to cancel it at once")
                self._scancel("--batch", "--signal=TERM")
                self._cancel_at = time.monotonic() + self._grace
                return
            self._cancel_at = time.monotonic()
        if self._cancel_at is not None and time.monotonic() >= self._cancel_at:
            self._cancel_at = None
            self._say(f"cancelling job {self._job}")
            self._scancel()

    def _scancel(self, *options: str) -> None:
        try:
            ask(("scancel", *options, self._job), os.environ)
        except EngineError as e:
            self._say(str(e))

    def _tell(self, facts: Mapping[str, str]) -> None:
        state = facts["JobState"]
        self._ran = self._ran or facts.get("NodeList", "(null)") not in ("", "(null)")
        if state == "PENDING" and not self._told and facts.get("Reason", "None") != "None":
            self._told = True
            self._say(f"job {self._job} is waiting: {facts['Reason']}")
        elif state == "RUNNING" and self._state in ("", "PENDING", "CONFIGURING"):
            self._say(f"job {self._job} runs on {facts.get('NodeList', '?')}")
        self._state = state

    def _code(self, facts: Mapping[str, str]) -> int:
        state = facts["JobState"]
        code, _, number = facts.get("ExitCode", "1:0").partition(":")
        if state not in ("COMPLETED", "FAILED"):
            self._say(f"job {self._job}: {state.lower().replace('_', ' ')}")
        if code.isdecimal() and int(code):
            return int(code)
        if number.isdecimal() and int(number):
            return 128 + int(number)
        if state == "COMPLETED":
            return 0
        return CANCELLED_CODE if self._wishes else 1


class _Output:
    """What has been shown of a file that grows, and may not be there yet."""

    def __init__(self, path: str, to: BinaryIO) -> None:
        self._path = path
        self._to = to
        self._shown = 0

    def more(self) -> None:
        """Show what has come."""
        try:
            with open(self._path, "rb") as f:
                f.seek(self._shown)
                while block := f.read(1 << 16):
                    self._shown += len(block)
                    self._to.write(block)
            self._to.flush()
        except (FileNotFoundError, NotADirectoryError):
            pass  # not yet, or not here
        except BrokenPipeError:
            self._path = ""  # nobody reads it; the job goes on

    def missing(self, say: Callable[[str], None]) -> None:
        """Say so if the file never came."""
        if self._path and not os.path.exists(self._path):
            say(f"no output can be seen from here: {self._path} is on the job's first node")


def facts_of(job: str) -> dict[str, str]:
    """Give what Slurm knows of a job. JobState is UNKNOWN when Slurm has forgotten it."""
    try:
        said = ask(("scontrol", "show", "job", "--oneliner", job), os.environ)
    except EngineError as e:
        if "Invalid job id" in str(e):
            return {"JobState": "UNKNOWN"}
        return {"JobState": "PENDING", "Reason": str(e)}  # the controller may be back soon
    return read_facts(said)


def read_facts(said: str) -> dict[str, str]:
    """Read `Key=value Key=value`, of which the first of a key counts; values may hold spaces."""
    facts: dict[str, str] = {}
    for key, value in FACT.findall(said.strip()):
        facts.setdefault(key, value)
    return facts


@contextmanager
def _interrupts() -> Generator[Callable[[], int]]:
    """Count SIGINT and SIGTERM instead of ending by them; in the main thread only."""
    got: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    if threading.current_thread() is not threading.main_thread():
        yield lambda: 0
        return
    before = {n: signal.signal(n, lambda number, _: got.append(number)) for n in numbers}
    try:
        yield lambda: len(got)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _say(line: str) -> None:
    print(f"procession: {noted(shown(line))}", file=sys.stderr, flush=True)
