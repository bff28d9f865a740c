"""Ranks of torch that wait for one that does not come."""

import re

import pytest

import procession
from support import failure_of, require, uncoded, write

require("torch")
pytestmark = [pytest.mark.torch, pytest.mark.long, pytest.mark.timeout(180)]

TRAIN = """
    import time
    import procession
    import torch
    import torch.distributed as dist

    def load_batch():
        time.sleep(1000)

    def main():
        dist.init_process_group("gloo")
        for step in range(3):
            if dist.get_rank() == 3 and step == 2:
                procession.beat(step, 3)
                load_batch()
            dist.all_reduce(torch.ones(3))

    main()
    """


def test_seven_wait_for_one(tmp_path):
    """The exact line; only the rank that sleeps has beaten, so it is the one that hangs."""
    path = write(tmp_path / "train.py", TRAIN)
    hang = procession.Hang(timeout=5)
    options = {"nproc": 8, "hang": hang, "stop": procession.Stop(grace=1)}
    e = failure_of(procession.Script(str(path)), **options)
    assert (e.cause.rank, e.cause.outcome) == (3, procession.Outcome.HUNG)
    assert re.fullmatch(
        r"train.py failed: rank 3 of 8 \(pid \d+\) hung: no beat for \S+ s \(the last one at step "
        r"2 of 3\); it is in load_batch \(train.py:7\)",
        uncoded(str(e).splitlines()[0]),
    )
    assert e.end.stacks == (
        "rank 3 is in load_batch (train.py:7)",
        "7 ranks [0-2,4-7] wait in all_reduce (train.py:15)",
    )
