"""Many groups at once: from threads, tasks, ranks, forks, and many launchers."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

import procession
from chaos.programs import crowds
from chaos.row import Row, Trial
from chaos.runner import ROOT

KINDS = ("threads", "tasks", "ended threads", "nested", "forked callers", "launchers")
MOST = {"nested": 50, "forked callers": 100, "launchers": 100}
SHORT = 6


def strike(trial: Trial) -> None:
    """Run many groups at once, and compare what each gives."""
    chance = trial.chance
    kind = chance.choice(KINDS)
    count = min(MOST.get(kind, 200), chance.choice((50, 100, 200)))
    if os.environ.get("CHAOS_SHORT") == "1":
        count = SHORT
    trial.do(f"{count} groups at once: {kind}")
    began = time.monotonic()
    call = {
        "threads": _threads,
        "tasks": _tasks,
        "ended threads": _ended_threads,
        "nested": _nested,
        "forked callers": _forked,
        "launchers": _launchers,
    }[kind]
    found = call(count)
    for group in range(count):
        wanted = [[group, 0], [group, 1]]
        if kind == "nested":
            wanted = [wanted, wanted]
        got = json.loads(json.dumps(found.get(group)))
        trial.must(got == wanted, f"group {group}: {found.get(group)}")
    trial.figures[f"{count} groups, {kind}"] = time.monotonic() - began
    procession.forkserver.close()


def _options(group: int) -> dict[str, Any]:
    return {
        "args": (group,),
        "nproc": 2,
        "env": {"PYTHONPATH": str(ROOT)},
        "logs": crowds.QUIET,
        "learn": False,
    }


def _each(count: int, call: Callable[[int], Any]) -> dict[int, Any]:
    """Call something for each group, each in a thread of its own."""
    found: dict[int, Any] = {}

    def work(group: int) -> None:
        try:
            found[group] = call(group)
        except BaseException:
            found[group] = traceback.format_exc()

    threads = [threading.Thread(target=work, args=(group,)) for group in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def _threads(count: int) -> dict[int, Any]:
    return _each(count, lambda n: procession.run(crowds.number, **_options(n)))


def _nested(count: int) -> dict[int, Any]:
    return _each(count, lambda n: procession.run(crowds.nested, **_options(n)))


def _tasks(count: int) -> dict[int, Any]:
    async def one(group: int) -> Any:
        started = await asyncio.to_thread(procession.start, crowds.number, **_options(group))
        return (await started).values

    async def all_() -> list[Any]:
        return await asyncio.gather(*(one(n) for n in range(count)), return_exceptions=True)

    return {n: v if isinstance(v, list) else repr(v) for n, v in enumerate(asyncio.run(all_()))}


def _ended_threads(count: int) -> dict[int, Any]:
    """Start each in a thread that ends, and wait in this one."""
    groups = _each(count, lambda n: procession.start(crowds.number, **_options(n)))
    return {n: g if isinstance(g, str) else g.wait().values for n, g in groups.items()}


def _forked(count: int) -> dict[int, Any]:
    """Run each in a fork of this process, which may have an idle forkserver."""
    procession.run(int, nproc=1)
    found: dict[int, Any] = {}
    ends: dict[int, tuple[int, int]] = {}
    for group in range(count):
        read_end, write_end = os.pipe()
        pid = os.fork()
        if not pid:
            try:
                value = procession.run(crowds.number, **_options(group))
                os.write(write_end, json.dumps(value).encode())
                procession.forkserver.close()
            except BaseException:
                os.write(write_end, json.dumps(traceback.format_exc()).encode())
            finally:
                os._exit(0)
        os.close(write_end)
        ends[group] = pid, read_end
    for group, (pid, read_end) in ends.items():
        with open(read_end, "rb") as f:
            text = f.read()
        os.waitpid(pid, 0)
        found[group] = json.loads(text) if text else "ended without a word"
    return found


def _launchers(count: int) -> dict[int, Any]:
    started = [
        subprocess.Popen(
            [sys.executable, crowds.__file__, str(group)],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for group in range(count)
    ]
    found: dict[int, Any] = {}
    for group, process in enumerate(started):
        text, _ = process.communicate()
        good = process.returncode == 0
        found[group] = json.loads(text.replace("(", "[").replace(")", "]")) if good else text
    return found


ROW = Row(
    fault="50 to 200 groups at once, from threads, tasks of asyncio, threads that have ended, "
    "ranks of other groups, forks of a launcher; 100 launchers at once",
    holds="each gives its own values; nothing is left, so that resources stay as they were",
    full=20,
    trials=3,
    short=1,
    strike=strike,
    limit=300,
)
