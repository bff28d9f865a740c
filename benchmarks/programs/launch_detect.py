"""Run detect_rank.py; prints when `wait` had returned, in ns of the monotonic clock.

launch_detect.py procession|elastic RANKS DIRECTORY
"""

import json
import sys
import tempfile
import time
from pathlib import Path

RANK = str(Path(__file__).with_name("detect_rank.py"))


def by_procession(n, directory):
    import procession

    group = procession.start([sys.executable, RANK, directory], nproc=n)
    try:
        group.wait()
    except procession.GroupFailed as e:
        assert e.cause.rank == n - 1
    return time.monotonic_ns()


def by_elastic(n, directory):
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, start_processes

    with tempfile.TemporaryDirectory() as logs:
        group = start_processes(
            name="detect",
            entrypoint=sys.executable,
            args=dict.fromkeys(range(n), (RANK, directory)),
            envs={rank: {"RANK": str(rank), "WORLD_SIZE": str(n)} for rank in range(n)},
            logs_specs=DefaultLogsSpecs(log_dir=logs),
        )
        assert group.wait().failures
        now = time.monotonic_ns()
        group.close()
        return now


if __name__ == "__main__":
    way = {"procession": by_procession, "elastic": by_elastic}[sys.argv[1]]
    print(json.dumps(way(int(sys.argv[2]), sys.argv[3])))
