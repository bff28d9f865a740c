"""Groups beside strangers, in a namespace in which numbers of processes come again and again.

strangers.py COUNT SEED: as the first process of a namespace of pids; says in JSON what it saw. A
module that ranks import.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from typing import Any

MOST_PIDS = 1_000  # after the last one, numbers from 300 on come again
AT_ONCE = 120


def fail(kind: str) -> int:
    """Be a rank: with a daemon, and an end of its own."""
    rank = int(os.environ["RANK"])
    if not os.fork():
        os.setsid()
        time.sleep(0.2)
        os._exit(0)
    if kind == "waits":
        time.sleep(100)
    if rank == 1 and kind == "fails":
        raise ArithmeticError("on purpose")
    if rank == 1 and kind == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    return rank


def _stranger(seconds: float) -> None:
    """Live for a while; any signal is told by the exit code."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        if number not in (32, 33):  # the C library's own
            signal.signal(number, lambda got, _: os._exit(got))
    time.sleep(seconds)
    os._exit(0)


def _farm(count: int, chance: random.Random, report: int) -> None:
    """Have strangers, AT_ONCE at a time, until there were `count`; tell of those that were hit."""
    alive: set[int] = set()
    begun, numbers, hit = 0, set[int](), list[str]()
    while begun < count or alive:
        while len(alive) < AT_ONCE and begun < count:
            pid = os.fork()
            if not pid:
                _stranger(chance.uniform(0.0, 0.3))
            begun += 1
            alive.add(pid)
            numbers.add(pid)
        pid, status = os.wait()
        alive.discard(pid)
        if status:
            hit.append(f"{pid} ended by {os.waitstatus_to_exitcode(status)}")
    told = {"strangers": begun, "again": begun - len(numbers), "hit": hit}
    os.write(report, json.dumps(told).encode())
    os._exit(0)


def _group(kind: str) -> str:
    """Run a group; gives what was wrong with its end."""
    import procession
    from chaos.programs import strangers

    options: dict[str, Any] = {
        "nproc": 3,
        "logs": procession.Logs(ranks=[]),
        "stop": procession.Stop(grace=0.2, linger=0.2),
        "learn": False,
    }
    try:
        if kind == "command":
            procession.run(["sh", "-c", "sleep 100 & exec sleep 0.05"], timeout=30, **options)
            return ""
        group = procession.start(strangers.fail, args=(kind,), **options)
        if kind == "waits":
            time.sleep(0.02)
            group.stop()
            return ""
        values = group.wait(30).values
        return "" if values == [0, 1, 2] and kind == "well" else f"{kind}: values {values}"
    except procession.GroupFailed as e:
        right = e.cause.rank == 1 and kind in ("fails", "dies")
        return "" if right else f"{kind}: {e}"


def main() -> None:
    """Run groups as long as there are strangers."""
    count, chance = int(sys.argv[1]), random.Random(int(sys.argv[2]))
    # Since Linux 6.14 each namespace has a limit of its own: see `lacks` of the row.
    with open("/proc/sys/kernel/pid_max", "w", encoding="ascii") as f:
        f.write(str(MOST_PIDS))
    read_end, write_end = os.pipe()
    farm = os.fork()
    if not farm:
        os.close(read_end)
        _farm(count, chance, write_end)
    os.close(write_end)
    wrong, groups = list[str](), 0
    os.set_blocking(read_end, False)
    told = b""
    while not told:
        why = _group(chance.choice(("well", "fails", "dies", "waits", "command")))
        groups += 1
        wrong += [why] if why else []
        try:
            told = os.read(read_end, 1 << 20) or b"{}"
        except BlockingIOError:
            continue
    os.waitpid(farm, 0)
    import procession

    procession.forkserver.close()
    print(json.dumps({**json.loads(told), "groups": groups, "wrong": wrong}), flush=True)


def small_namespaces() -> bool:
    """Tell whether a namespace of pids can have a limit of its own."""
    numbers = os.uname().release.split(".")
    new = (int(numbers[0]), int(numbers[1])) >= (6, 14)
    words = ["unshare", "--pid", "--fork", "--mount-proc", "true"]
    return new and not subprocess.run(words, capture_output=True, check=False).returncode


if __name__ == "__main__":
    main()
