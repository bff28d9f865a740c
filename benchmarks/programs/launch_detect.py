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
    import elastic

    with tempfile.TemporaryDirectory() as logs:
        group = elastic.start(n, logs, sys.executable, RANK, directory)
        assert group.wait().failures
        now = time.monotonic_ns()
        group.close()
        return now


if __name__ == "__main__":
    way = {"procession": by_procession, "elastic": by_elastic}[sys.argv[1]]
    print(json.dumps(way(int(sys.argv[2]), sys.argv[3])))
