"""Slurm's commands as processes: one that answers at once, and `srun` while its step lasts."""

from __future__ import annotations

import subprocess
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from procession.engines.contract import EngineError

ANSWER_WITHIN = 30.0  # seconds for one of Slurm's commands
KEPT = 5  # last lines of srun, as the reason of its end
NO_SLURM = "is not on the PATH: the commands of Slurm are needed (Debian package slurm-client)"


class Step:
    """One srun, and a thread that reads what it says.

    name: the step's. slots: of its tasks, by their numbers. gone: slots that are told to be gone.
    started: slots whose tasks have begun. last: srun's last lines. exit: how srun ended, in words.
    """

    def __init__(
        self, name: str, argv: list[str], env: Mapping[str, str], slots: tuple[int, ...]
    ) -> None:
        self.name = name
        self.slots = slots
        self.gone: set[int] = set()
        self.started: set[int] = set()
        self.last: deque[str] = deque(maxlen=KEPT)
        self.exit = ""
        try:
            self._srun = subprocess.Popen(
                argv,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                start_new_session=True,
            )
        except OSError as e:
            raise EngineError(f"srun cannot be started: {e}") from None
        self._reader: threading.Thread | None = None

    @property
    def running(self) -> bool:
        """Whether srun is there."""
        return not self.exit

    def watch(self, hear: Callable[[Step, str], None], ended: Callable[[], None]) -> None:
        """Call `hear` for each line from now on, and `ended` at the end, in a thread."""

        def read() -> None:
            assert self._srun.stdout is not None
            with self._srun.stdout as lines:
                for line in lines:
                    hear(self, line.rstrip("\r\n"))
            code = self._srun.wait()
            self.exit = f"signal {-code}" if code < 0 else f"exit code {code}"
            ended()

        self._reader = threading.Thread(target=read, name="procession-srun", daemon=True)
        self._reader.start()

    def kill(self) -> None:
        """Kill srun, not its tasks."""
        if self.running:
            self._srun.kill()

    def join(self, seconds: float | None) -> bool:
        """Wait until srun has ended and that was told; False if it has not after so long."""
        if self._reader is not None:
            self._reader.join(seconds)
            return not self._reader.is_alive()
        return True


def ask(
    argv: Sequence[str],
    env: Mapping[str, str],
    text: str | None = None,
    within: float = ANSWER_WITHIN,
) -> str:
    """Run one of Slurm's commands; gives what it says. Raises EngineError, with its own words.

    text: its standard input. within: seconds after which it is ended.
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
    if done.returncode:
        words = done.stderr.strip() or done.stdout.strip().partition("\n")[0]
        words = words or f"it ended with exit code {done.returncode}"
        raise EngineError(f"{argv[0]} failed: {words}")
    return done.stdout


__all__ = ["NO_SLURM", "Step", "ask"]
