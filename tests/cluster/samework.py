"""The same work for every engine: what a driver runs, in a process that can be killed.

    python samework.py ENGINE WORK DIRECTORY NODES RANKS

Ranks say in files of the directory that they are there; the driver says in `told` what came of it.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path


def say(here, name, text=""):
    new = Path(here, f"new.{name}")
    new.write_text(str(text))
    new.rename(Path(here, name))


def values():
    return [int(os.environ[n]) for n in ("RANK", "LOCAL_RANK", "GROUP_RANK", "WORLD_SIZE")]


def train(steps):
    """Train a small model on data of its own; gives the weights, which must be those of all."""
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        x = torch.randn(8, 4)
        optimizer.zero_grad()
        (model(x) - x.sum(1, keepdim=True)).square().mean().backward()
        optimizer.step()
    weights = [p.item() for p in model.parameters() for p in p.flatten()]
    dist.destroy_process_group()
    return weights


def hold(here):
    """Be there until told otherwise; rank 3 exits with code 7 then, in a first attempt."""
    rank, attempt = os.environ["RANK"], os.environ["TORCHELASTIC_RESTART_COUNT"]
    say(here, f"{attempt}.{rank}", f"{os.getpid()} {time.monotonic()}")
    while True:
        if attempt == "0" and rank == "3" and Path(here, "fail").exists():
            say(here, "failed", time.monotonic())
            sys.exit(7)
        if attempt != "0" and Path(here, "end").exists():
            return attempt
        time.sleep(0.005)


def engine_of(name, nodes):
    if name == "ray":
        from procession.engines.ray import RayEngine

        return RayEngine(nodes, cpus=2)
    if name == "ssh":
        from procession.engines.ssh import SshEngine

        hosts = [f"n{n + 1}" for n in range(nodes)]
        return SshEngine(hosts, options=["-F", os.environ["SSH_CONFIG"]])
    return name


def main(name, work, here, nodes, nproc):
    import procession
    from procession import Restart, Stop

    options = {"nnodes": int(nodes), "nproc": int(nproc), "stop": Stop(grace=5)}
    # The nodes of Ray and ssh have an environment of theirs.
    options["env"] = {n: os.environ[n] for n in ("SAMEWORK", "PYTHONPATH")}
    if name == "ssh":  # its machines know no names, from which gloo would find an address
        options["env"]["GLOO_SOCKET_IFNAME"] = "uplink"
    programs = {"values": (values, ()), "ddp": (train, (10,)), "many": (["true"], ())}
    program, args = programs.get(work, (hold, (here,)))
    if work in ("again", "spare"):
        options["restart"] = Restart(max=1, node_losses=1)
    began = time.monotonic()
    result = None
    told = {}
    try:
        with procession.start_on(engine_of(name, int(nodes)), program, args=args, **options) as job:
            told["started"] = time.monotonic() - began
            result = job.wait().values
    except procession.GroupFailed as e:
        cause = e.cause
        told |= {
            "rank": cause.rank, "outcome": cause.outcome.name, "code": e.exit_code,
            "failures": [f.rank for f in e.failures], "report": str(e),
        }  # fmt: skip
    told |= {"seconds": time.monotonic() - began, "at": time.monotonic(), "values": result}
    say(here, "told", json.dumps(told))


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    main(*sys.argv[1:])
