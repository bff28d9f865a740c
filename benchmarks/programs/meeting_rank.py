"""A rank on one of two machines, which leaves files of times, in ns: meeting_rank.py HOW DIRECTORY.

first: begins, and ends. pair: both ranks fail, the second 5 ms after the first. reduce: reduces
until `go` is there; then rank 1 fails. elastic: begins, and reduces until it is ended; the files
have the size of the world in their names.
"""

import os
import sys
import time
from pathlib import Path

from notes import note

APART = 5_000_000  # ns between two failures


def main(how: str, at: Path) -> None:
    rank = int(os.environ["RANK"])
    if how == "elastic":
        size = os.environ["WORLD_SIZE"]
        note(at, f"world_{size}_{rank}_{os.getpid()}")
        reduce(rank, at, f"reduces_{size}_{rank}")
    if how != "reduce":
        note(at, f"begun_{rank}")
    if how == "pair":
        while len(list(at.glob("begun_*"))) < 2:
            time.sleep(0.001)
        first = max(int(p.read_text()) for p in at.glob("begun_*")) + 500_000_000
        mine = first + (0 if rank == 1 else APART)
        while time.monotonic_ns() < mine:
            pass
        note(at, f"failed_{rank}")
        raise ValueError(f"failure of rank {rank}")
    if how == "reduce":
        reduce(rank, at, f"begun_{rank}")


def reduce(rank: int, at: Path, first: str) -> None:
    """Reduce for ever. first: the file that says when this was done for the first time."""
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    go = at / "go"
    while True:
        dist.all_reduce(torch.ones(1))
        if not (at / first).exists():
            note(at, first)
        if rank == 1 and go.exists() and go.read_text() == "fail":
            note(at, "died")
            os._exit(3)
        time.sleep(0.01)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
