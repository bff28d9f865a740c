"""Drive a job over many nodes, whose agents are stubs (see stub_agents.py); prints what it cost.

drive_nodes.py NODES NPROC fail|all|stop SILENCE [--logs] [--payload BYTES]

fail: one rank fails; all: one of each node, at the same time; stop: the job is stopped.

Stages have the seconds that they took, `x`, and those of CPU of the driver's thread, `x_cpu`:
    join    from Engine.start to the last hello
    start   from the first launch sent to the last ready
    told    from a rank's failure, or the stop that is asked for, to the last agent that hears of it
    end     from the same to the end of the job: all agents have told theirs
    leave   from there until all agents are gone and `run` returns
    conclude, report: putting an end together, which is a part of `end`; and writing the report
Heartbeats, by silence of SILENCE seconds: beat_cpu, a second; beat_wakeups, a second. With --logs,
lines and blocks of 160 lines, 100 bytes each: `line_cpu`, `block_cpu`, all threads, for one of
them; `lines`, `blocks`: so many a second. Memory in bytes: rss_before, rss_joined, rss_end.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import threading
import time
import traceback

from procession.engines.driver import Driver
from procession.engines.outcome import job_end
from procession.engines.work import Share, divide
from procession.explain.ends import harmless_report
from procession.values.policy import Restart
from procession.values.spec import make_spec

HERE = os.path.dirname(os.path.abspath(__file__))
PROCESSES = 2
LINE = 100  # bytes
LINES, BLOCKS, BLOCK = 40, 8, 160  # of each agent; lines of a block
PATIENCE = 60  # seconds


class Stubs:
    """An engine whose agents are stubs."""

    name = "stubs"

    def __init__(self, slots, nproc):
        self.slots = slots
        command = [sys.executable, os.path.join(HERE, "stub_agents.py"), str(nproc)]
        pipe = subprocess.PIPE
        self.processes = [
            subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) for _ in range(PROCESSES)
        ]
        for process in self.processes:
            process.stdout.readline()

    def check(self):
        pass

    def start(self, agent, tell):
        self.began = time.monotonic()
        _, port = json.loads(agent.env["PROCESSION_AGENT"])["at"][-1]
        key = agent.env["PROCESSION_AGENT_KEY"]
        for k in range(PROCESSES):
            slots = list(range(k, self.slots, PROCESSES))
            self.order(k, at=["127.0.0.1", port], key=key, slots=slots)

    def order(self, process, **order):
        stdin = self.processes[process].stdin
        stdin.write(json.dumps(order) + "\n")
        stdin.flush()

    def times(self):
        """Give when what came, to all of them: the last time of each kind."""
        found = {}
        for process in self.processes:
            process.stdin.close()
            for kind, (_, last) in json.loads(process.stdout.read()).items():
                found[kind] = max(last, found.get(kind, 0.0))
            process.wait()
        return found

    def replace(self, slot):
        raise AssertionError(slot)

    def kill(self):
        for process in self.processes:
            process.terminate()

    def close(self):
        pass


class Marks:
    """When what happened last to the job: seconds, and those of CPU of the driver's thread."""

    def __init__(self):
        self.at = {}
        self.running = threading.Event()

    def take(self, event):
        self.at[event.kind] = time.monotonic(), time.thread_time()
        if event.kind == "running":
            self.running.set()

    def between(self, first, last):
        return [b - a for a, b in zip(self.at[first], self.at[last], strict=True)]


def rss():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def spent():
    return time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw


def conduct(*args):
    """Do to a job that runs what is to be measured, and end it."""
    try:
        measure(*args)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def measure(driver, engine, reader, marks, how, silence, found):
    assert marks.running.wait(PATIENCE), "the ranks do not run"
    found["rss_joined"] = rss()
    time.sleep(1.5)
    before = spent()
    time.sleep(silence)
    cpu, woken = (b - a for a, b in zip(before, spent(), strict=True))
    found["beat_cpu"], found["beat_wakeups"] = cpu / silence, woken / silence
    logs = {"line": (LINES, 1), "block": (BLOCKS * BLOCK, BLOCK)} if reader else {}
    for name, (lines, per) in logs.items():
        begin, (before, _) = time.monotonic(), spent()
        for k in range(PROCESSES):
            engine.order(k, log=[lines, LINE, per])
        seconds = float(reader.stdout.readline()) - begin
        count = engine.slots * lines // per
        found[f"{name}_cpu"] = (spent()[0] - before) / count
        found[f"{name}s"] = count / seconds
        time.sleep(0.5)
    found["asked"] = time.monotonic()
    if how == "stop":
        driver.request_stop()
    for slot in {"fail": [engine.slots // 2], "all": range(engine.slots)}.get(how, ()):
        engine.order(slot % PROCESSES, fail=slot)


def main(nodes, nproc, how, silence, logs, payload):
    reader = None
    if logs:
        counts = [nodes * LINES * LINE, nodes * (LINES + BLOCKS * BLOCK) * LINE]
        command = [sys.executable, os.path.join(HERE, "count_bytes.py"), *map(str, counts)]
        pipe = subprocess.PIPE
        reader = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
    engine = Stubs(nodes, nproc)
    spec = make_spec([sys.executable, "train.py", "x" * payload], nproc=nproc)
    console, sys.stdout = sys.stdout, reader.stdin if reader else sys.stdout
    found = {"rss_before": rss()}
    driver = Driver(divide(Share(spec.__replace__(restart=Restart())), nodes), engine)
    sys.stdout = console
    marks = Marks()
    driver.subscribe(marks.take)
    args = driver, engine, reader, marks, how, silence, found
    threading.Thread(target=conduct, args=args, daemon=True).start()
    began = time.thread_time()
    driver.run()
    returned = time.monotonic(), time.thread_time()
    found["rss_end"] = rss()
    times = engine.times()
    begin = time.thread_time()
    job_end("train.py", nproc, nodes, 0, driver.parts, [])
    concluded = time.thread_time()
    text = harmless_report(driver.end) if how != "stop" else ""
    written = time.thread_time()
    final = "stopped" if how == "stop" else "failed"
    assert driver.life.phase.name.lower() == final, driver.end
    assert len(driver.end.ended) + len(driver.end.failures) == nodes * nproc
    assert (f" of {nodes * nproc} (pid" in text) == (how != "stop")
    begun = times.get("failed", found.pop("asked"))
    at, cpu = marks.at["joined"]
    stages = {
        "join": (at - engine.began, cpu - began),
        "start": marks.between("starting", "running"),
    }
    stages["told"] = times["stop"] - begun, None
    stages["end"] = marks.at[final][0] - begun, marks.between("stopping", final)[1]
    stages["leave"] = [b - a for a, b in zip(marks.at[final], returned, strict=True)]
    stages["conclude"] = concluded - begin, concluded - begin
    stages["report"] = written - concluded, written - concluded
    for name, (seconds, cpu) in stages.items():
        found[name] = seconds
        if cpu is not None:
            found[f"{name}_cpu"] = cpu
    print(json.dumps(found))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("nodes", type=int)
    parser.add_argument("nproc", type=int)
    parser.add_argument("how", choices=("fail", "all", "stop"))
    parser.add_argument("silence", type=float)
    parser.add_argument("--logs", action="store_true")
    parser.add_argument("--payload", type=int, default=0)
    main(**vars(parser.parse_args()))
