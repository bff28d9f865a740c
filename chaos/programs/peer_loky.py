"""A launcher by loky: peer_loky.py RANKS. The first task that fails ends all, by loky's means."""

import sys
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from importlib import import_module
from typing import Any

from chaos.programs.peer_rank import be

if __name__ == "__main__":
    pool: Any = import_module("loky").ProcessPoolExecutor(max_workers=int(sys.argv[1]))
    tasks: list[Future[None]] = [pool.submit(be, rank) for rank in range(int(sys.argv[1]))]
    done, _ = wait(tasks, return_when=FIRST_EXCEPTION)
    failed = [rank for rank, task in enumerate(tasks) if task in done and task.exception()]
    for rank in failed:
        print(f"task {rank} failed: {tasks[rank].exception()!r}", flush=True)
    pool.shutdown(kill_workers=bool(failed))
    sys.exit(1 if failed else 0)
