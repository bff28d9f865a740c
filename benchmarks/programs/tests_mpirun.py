"""Tests that have mpirun start their ranks, which are this file run as a program."""

import os
import subprocess
import sys

import pytest
import torch.distributed as dist
from tests_body import COUNT, GLOO, RANKS, body

MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(RANKS), sys.executable]


@pytest.mark.parametrize("number", range(COUNT))
def test_sum(tmp_path, number):
    subprocess.run([*MPIRUN, __file__, f"file://{tmp_path}/store"], check=True)


if __name__ == "__main__":
    rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
    if GLOO:
        dist.init_process_group("gloo", init_method=sys.argv[1], rank=rank, world_size=RANKS)
    body(rank)
    if GLOO:
        dist.destroy_process_group()
