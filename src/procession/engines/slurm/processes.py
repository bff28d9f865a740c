"""Slurm's commands as processes: one that answers at once, and `srun` while its step lasts."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence

from procession.engines.contract import EngineError
from procession.engines.helper import Helper

ANSWER_WITHIN = 30.0  # seconds for one of Slurm's commands
NO_SLURM = "is not on the PATH: the commands of Slurm are needed (Debian package slurm-client)"


class Step(Helper):
    """One srun, while its step lasts.

    slots: of its tasks, by their numbers. gone: slots that are reported as gone.
    words: by slot, the last line of its task. exits: by slot, how its task exited. `last` has
    srun's own lines.
    """

    def __init__(self, argv: Sequence[str], env: Mapping[str, str], slots: tuple[int, ...]) -> None:
        super().__init__(argv, env=env)
        self.slots = slots
        self.gone: set[int] = set()
        self.words: dict[int, str] = {}
        self.exits: dict[int, str] = {}

    @property
    def exit(self) -> str:
        """How srun ended, in words."""
        code = self.code or 0
        return f"signal {-code}" if code < 0 else f"exit code {code}"


def ask(
    argv: Sequence[str],
    env: Mapping[str, str],
    text: str | None = None,
    within: float = ANSWER_WITHIN,
    readable: tuple[int, ...] = (0,),
) -> str:
    """Run one of the cluster's commands; gives its output. Raises EngineError, with its own words.

    text: its standard input. within: seconds after which it is ended. readable:
    exit codes after which its output counts.
    """
    try:
        done = subprocess.run(
            argv,
            env={**env},
            input=text or "",
            capture_output=True,
            text=True,
            errors="replace",
            timeout=within,
            start_new_session=True,
            check=False,
        )
    except FileNotFoundError:
        raise EngineError(f"{argv[0]} {NO_SLURM}") from None
    except subprocess.TimeoutExpired:
        raise EngineError(f"{argv[0]} did not answer within {within:g} s") from None
    if done.returncode not in readable:
        words = done.stderr.strip() or done.stdout.strip().partition("\n")[0]
        words = words or f"it ended with exit code {done.returncode}"
        raise EngineError(f"{argv[0]} ended with an error: {words}")
    return done.stdout


def fact(said: str, name: str) -> str:
    """Give the first value of a name in what `scontrol show` says, "" if there is none."""
    match = re.search(rf"(?:^|\s){name}=(\S+)", said)
    return match[1] if match else ""
