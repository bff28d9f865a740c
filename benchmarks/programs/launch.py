"""Launch programs by procession or elastic, and print what was measured, as JSON.

launch.py commands|detect|many procession|elastic RANKS [DIRECTORY]
"""

import json
import os
import signal
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path

RANK = str(Path(__file__).with_name("detect_rank.py"))


LOOK = 0.001  # seconds between two looks of elastic, whose default is 1


def start(way, n, *command):
    """Start a program n times. Gives the group, and what waits, and says who failed."""
    launcher = import_module(way)
    if way == "procession":
        group = launcher.start(command, nproc=n)

        def wait(_):
            try:
                group.wait()
            except launcher.GroupFailed as e:
                return {e.cause.rank}
            return set()

        return group, wait
    group = launcher.start(n, tempfile.mkdtemp(), *command)
    # It has ended the others, and counts them, too; and it has closed itself.
    return group, lambda period: {*group.wait(period=period).failures}


def commands(way, n):
    """Start and reap many /bin/true, twice: the seconds of each."""
    seconds = []
    for _ in range(2):
        begin = time.perf_counter()
        _, wait = start(way, n, "/bin/true")
        assert not wait(LOOK)
        seconds.append(time.perf_counter() - begin)
    return seconds


def detect(way, n, directory):
    """Run detect_rank.py: when `wait` had returned, in ns of the monotonic clock."""
    _, wait = start(way, n, sys.executable, RANK, directory)
    assert n - 1 in wait(1)
    return time.monotonic_ns()


def many(way, n):
    """Start many /bin/sleep, kill one, and wait until all have ended: the seconds of both."""
    if way == "procession":
        import_module(way).run(["/bin/true"])  # imports, and an agent that rests
    begin = time.perf_counter()
    group, wait = start(way, n, "/bin/sleep", "1000")
    started = time.perf_counter()
    os.kill(group.pids()[n // 2], signal.SIGKILL)
    assert n // 2 in wait(LOOK)
    return started - begin, time.perf_counter() - started


if __name__ == "__main__":
    work = {"commands": commands, "detect": detect, "many": many}[sys.argv[1]]
    import_module(sys.argv[2])  # is not part of the work
    print(json.dumps(work(sys.argv[2], int(sys.argv[3]), *sys.argv[4:])))
