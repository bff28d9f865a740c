"""Tests that call torch.multiprocessing.spawn."""

import pytest
import torch.distributed as dist
import torch.multiprocessing
from tests_body import COUNT, GLOO, RANKS, body


def run(rank, store):
    if GLOO:
        dist.init_process_group("gloo", init_method=store, rank=rank, world_size=RANKS)
    body(rank)
    if GLOO:
        dist.destroy_process_group()


@pytest.mark.parametrize("number", range(COUNT))
def test_sum(tmp_path, number):
    torch.multiprocessing.spawn(run, (f"file://{tmp_path}/store",), RANKS)
