"""What a rank does in each way of testing, and how many tests there are."""

import os

import torch
import torch.distributed as dist

RANKS = 4
COUNT = int(os.environ["BENCHMARK_TESTS"])
GLOO = os.environ["BENCHMARK_GROUP"] == "gloo"


def body(rank):
    """Check a sum: of the ranks, where there is a process group."""
    t = torch.full((2,), float(rank))
    if GLOO:
        dist.all_reduce(t)
        assert t[0] == RANKS * (RANKS - 1) / 2
    else:
        assert t.sum() == 2 * rank
