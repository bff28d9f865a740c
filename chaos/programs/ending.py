"""A program in which one rank ends at a stage, in a way: as a function, and as a script.

As a script: ending.py LOSER STAGE WAY AFTER KIND,KIND,...
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from typing import Any

STAGES = ("unpickle", "program", "later", "thread", "value", "atexit", "finalise")
SCRIPT_STAGES = ("bootstrap", "import", "program", "later", "thread", "atexit", "finalise")
HARD_ONLY = ("thread", "atexit", "finalise", "bootstrap")


class Ending:
    """A callable. loser: the rank that ends. size: of the value of the others, in bytes."""

    def __init__(
        self, loser: int, stage: str, way: str, after: float, kinds: list[str], size: int
    ) -> None:
        self.loser, self.stage, self.way, self.after = loser, stage, way, after
        self.kinds, self.size = kinds, size

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self.stage == "unpickle" and os.environ.get("RANK") == str(self.loser):
            strike(self.way)

    def __call__(self) -> Any:
        rank = int(os.environ["RANK"])
        if rank != self.loser:
            from chaos.programs.peers import be

            be(self.kinds[rank])
            return b"x" * self.size
        return fail(self.stage, self.way, self.after, self.size)


def fail(stage: str, way: str, after: float, size: int) -> Any:
    """End at a stage that a running program can choose."""
    from chaos.programs.peers import say

    say(0)  # the last line, which must not be lost
    if stage == "later":
        time.sleep(after)
    if stage in ("program", "later", "import", "unpickle"):
        strike(way)
    if stage == "thread":
        main = threading.main_thread()

        def late() -> None:
            main.join()
            strike(way)

        threading.Thread(target=late).start()
    if stage == "atexit":
        atexit.register(strike, way)
    if stage == "finalise":
        global last
        last = Last(way)
    return [b"x" * size, Struck(way)] if stage == "value" else "good"


class Last:
    """Strikes when the interpreter gives it up: then no module can be counted on."""

    def __init__(self, way: str) -> None:
        from chaos.programs.ways import expected

        self.code = expected(way)[1]
        # Of a file object, the collector might close the file before it calls `__del__`.
        self.stamp = os.open(f"{os.environ['CHAOS_WORK']}/struck", os.O_CREAT | os.O_WRONLY, 0o600)
        self.now, self.write, self.pid = time.monotonic, os.write, os.getpid()
        self.kill, self.exit = os.kill, os._exit

    def __del__(self) -> None:
        self.write(self.stamp, str(self.now()).encode())
        if self.code < 0:
            self.kill(self.pid, -self.code)
        self.exit(self.code)


last: Last | None = None


class Struck:
    """Strikes when it is pickled."""

    def __init__(self, way: str) -> None:
        self.way = way

    def __reduce__(self) -> Any:
        strike(self.way)
        return str, ()


def strike(way: str) -> None:
    """End in this way; what that needs is imported only now."""
    from chaos.programs import ways

    ways.strike(way)


def main() -> None:
    """Be the script."""
    loser, stage, way, after, kinds = sys.argv[1:]
    rank = os.environ["RANK"]
    if rank != loser:
        from chaos.programs.peers import be

        be(kinds.split(",")[int(rank)])
    elif stage == "import":
        from chaos.programs.peers import say

        say(0)
        import struck_by_import  # type: ignore[import-not-found] # noqa: F401
    else:
        fail(stage, way, float(after), 0)


if __name__ == "__main__":
    main()
