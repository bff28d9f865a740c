"""Start many /bin/sleep, kill one, and wait until all have ended; prints the seconds of both.

launch_many.py procession|elastic RANKS
"""

import json
import os
import signal
import sys
import tempfile
import time


def by_procession(n):
    import procession

    procession.run(["/bin/true"])  # imports, and a forkserver that rests
    begin = time.perf_counter()
    group = procession.start(["/bin/sleep", "1000"], nproc=n)
    started = time.perf_counter()
    os.kill(group.pids()[n // 2], signal.SIGKILL)
    try:
        group.wait()
    except procession.GroupFailed as e:
        assert e.cause.rank == n // 2
    return started - begin, time.perf_counter() - started


def by_elastic(n):
    import elastic

    with tempfile.TemporaryDirectory() as logs:
        begin = time.perf_counter()
        group = elastic.start(n, logs, "/bin/sleep", "1000")
        started = time.perf_counter()
        os.kill(group.pids()[n // 2], signal.SIGKILL)
        result = group.wait(period=0.001)  # its default looks once a second
        assert n // 2 in result.failures  # with those that it has ended
        group.close()
        return started - begin, time.perf_counter() - started


if __name__ == "__main__":
    way = {"procession": by_procession, "elastic": by_elastic}[sys.argv[1]]
    print(json.dumps(way(int(sys.argv[2]))))
