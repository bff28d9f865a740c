"""Launch programs by procession or elastic, and print what was measured, as JSON.

launch.py commands|detect|many procession|elastic RANKS [DIRECTORY]
"""

import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

RANK = str(Path(__file__).with_name("detect_rank.py"))


def commands(way, n):
    """Start and reap many /bin/true, twice: the seconds of each."""
    if way == "procession":
        import procession

        def launch():
            procession.run(["/bin/true"], nproc=n)
    else:
        import elastic

        def launch():
            with tempfile.TemporaryDirectory() as logs:
                started = elastic.start(n, logs, "/bin/true")
                started.wait(period=0.001)  # its default looks once a second
                started.close()

    seconds = []
    for _ in range(2):
        begin = time.perf_counter()
        launch()
        seconds.append(time.perf_counter() - begin)
    return seconds


def detect(way, n, directory):
    """Run detect_rank.py: when `wait` had returned, in ns of the monotonic clock."""
    if way == "procession":
        import procession

        group = procession.start([sys.executable, RANK, directory], nproc=n)
        try:
            group.wait()
        except procession.GroupFailed as e:
            assert e.cause.rank == n - 1
        return time.monotonic_ns()
    import elastic

    with tempfile.TemporaryDirectory() as logs:
        group = elastic.start(n, logs, sys.executable, RANK, directory)
        assert group.wait().failures
        now = time.monotonic_ns()
        group.close()
        return now


def many(way, n):
    """Start many /bin/sleep, kill one, and wait until all have ended: the seconds of both."""
    if way == "procession":
        import procession

        procession.run(["/bin/true"])  # imports, and an agent that rests
        begin = time.perf_counter()
        group = procession.start(["/bin/sleep", "1000"], nproc=n)
        started = time.perf_counter()
        os.kill(group.pids()[n // 2], signal.SIGKILL)
        try:
            group.wait()
        except procession.GroupFailed as e:
            assert e.cause.rank == n // 2
        return started - begin, time.perf_counter() - started
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
    work = {"commands": commands, "detect": detect, "many": many}[sys.argv[1]]
    print(json.dumps(work(sys.argv[2], int(sys.argv[3]), *sys.argv[4:])))
