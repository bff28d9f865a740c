"""Two ranks that fail a known time apart, in all ways: is a wrong one ever named alone?

As a script: `python failurepairs.py [ROUNDS]` counts what is said, by the gap.
"""

import collections
import itertools
import os
import signal
import sys
import time

import procession

WAYS = ("raise", "exit", "_exit", "kill", "segv")
LATE_NS = 500_000
LEAD = 0.15  # seconds until the first failure, in which both ranks get there


def fail(how):
    if how == "raise":
        raise ValueError("one of two")
    if how == "exit":
        sys.exit(3)
    if how == "_exit":
        os._exit(3)
    os.kill(os.getpid(), signal.SIGKILL if how == "kill" else signal.SIGSEGV)


def undisturbed(rank):
    """Where that is allowed, let nothing come between the stamp and the failure."""
    try:
        cpus = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cpus[rank % len(cpus)]})
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except OSError:
        pass


def work(folder, first, ways, gap):
    """Fail when it is time, having written down when that was; rank `first` comes first."""
    rank = int(os.environ["RANK"])
    ready = f"{folder}/ready"
    os.close(os.open(f"{ready}.{rank}", os.O_CREAT | os.O_WRONLY))
    if rank == first:
        while not os.path.exists(f"{ready}.{1 - rank}"):
            time.sleep(0.001)
        with open(f"{folder}/new", "w") as f:
            f.write(str(time.monotonic_ns() + int(LEAD * 1e9)))
        os.rename(f"{folder}/new", f"{folder}/at")
    while not os.path.exists(f"{folder}/at"):
        time.sleep(0.001)
    with open(f"{folder}/at") as f:
        at = int(f.read()) + (0 if rank == first else int(gap * 1e9))
    stamp = os.open(f"{folder}/stamp.{rank}", os.O_CREAT | os.O_WRONLY)
    undisturbed(rank)
    time.sleep(max(0.0, (at - time.monotonic_ns()) / 1e9 - 0.005))
    while time.monotonic_ns() < at:
        pass
    os.write(stamp, str(time.monotonic_ns()).encode())
    fail(ways[0 if rank == first else 1])


def judge(folder, first, ways, gap):
    """Run one pair; gives "right", "simultaneous", "wrong" or "unknown"; also the real gap."""
    os.makedirs(folder)
    failed = None
    try:
        procession.run(work, args=(str(folder), first, ways, gap), nproc=2)
    except procession.GroupFailed as e:
        failed = e
    stamps = []
    for rank in (first, 1 - first):
        try:
            with open(f"{folder}/stamp.{rank}") as f:
                stamps.append(int(f.read() or 0))
        except OSError:
            stamps.append(0)
    real = (stamps[1] - stamps[0]) / 1e9 if all(stamps) else gap
    truly = first if real >= 0 else 1 - first
    together = {end.rank for end in failed.end.together}
    if together == {truly}:
        return "right", abs(real)
    if truly in together:
        return "simultaneous", abs(real)
    seen = next((e for e in (*failed.failures, *failed.ended) if e.rank == truly), None)
    late = seen is None or seen.happened_at - seen.doubt - stamps[0 if real >= 0 else 1] > LATE_NS
    # The machine kept it from failing when it was about to: what came first then is not known.
    return ("unknown" if late else "wrong"), abs(real)


def pairs():
    """Give all ordered pairs of ways to fail, and which rank comes first, in turns."""
    return [(n % 2, ways) for n, ways in enumerate(itertools.product(WAYS, WAYS))]


def main():
    import tempfile

    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    for gap in (0.001, 0.005, 0.02):
        counts = collections.Counter()
        wrong = []
        with tempfile.TemporaryDirectory() as folder:
            for n in range(rounds):
                for first, ways in pairs():
                    said, real = judge(f"{folder}/{n}.{first}.{ways}", first, ways, gap)
                    counts[said] += 1
                    if said == "wrong":
                        wrong.append((ways, round(real * 1e3, 2)))
        print(f"{gap * 1e3:g} ms: {dict(counts)} {wrong}", flush=True)


if __name__ == "__main__":
    main()
