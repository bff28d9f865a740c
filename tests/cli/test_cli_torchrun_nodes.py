"""Launchers that are numbered as the nodes of one job."""

import json

import pytest
from commandline import Watched, run

from seams.system import free_port
from support import write

SEE = """
import json, os, sys
names = ["RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE",
         "ROLE_RANK", "ROLE_WORLD_SIZE", "ROLE_NAME", "MASTER_ADDR", "MASTER_PORT",
         "TORCHELASTIC_RUN_ID"]
sys.stdout.write(json.dumps({name: os.environ[name] for name in names}) + "\\n")
"""
REDUCE = """
import os
import subprocess
import sys
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
total = torch.tensor([10.0 ** rank])
dist.all_reduce(total)
print(f"rank {rank} of {size}: {int(total.item())}", flush=True)
dist.destroy_process_group()
"""


APART = ["--engine", "none"]  # one launcher alone


def node(rank, port, *words, address="127.0.0.1", nproc=2):
    """Give the words of a launcher that is one of two nodes."""
    return ["run", "--nnodes", "2", "--node-rank", rank, "--master-addr", address,
            "--master-port", port, "-n", nproc, *words]  # fmt: skip


def test_ranks_are_numbered_over_nodes(tmp_path):
    script = write(tmp_path / "see.py", SEE)
    logs = ["--log-dir", tmp_path / "logs", "-r", "1:2", "--rdzv-id", "job5"]
    words = [*APART, *logs, "--role", "actor", "--prefix", "", script]
    done = run(*node(1, 29555, *words, address="head")[1:])
    assert done.returncode == 0, done.stderr
    seen = sorted((json.loads(line) for line in done.stdout.splitlines()), key=lambda s: s["RANK"])
    common = {
        "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "1", "GROUP_WORLD_SIZE": "2",
        "ROLE_WORLD_SIZE": "4", "ROLE_NAME": "actor", "MASTER_ADDR": "head", "MASTER_PORT": "29555",
        "TORCHELASTIC_RUN_ID": "job5",
    }  # fmt: skip
    assert seen == [
        {**common, "RANK": "2", "LOCAL_RANK": "0", "ROLE_RANK": "2"},
        {**common, "RANK": "3", "LOCAL_RANK": "1", "ROLE_RANK": "3"},
    ]
    (path,) = (tmp_path / "logs").iterdir()
    assert path.name.startswith("job5_")
    assert (path / "attempt_0" / "1" / "stderr.log").exists()  # by the number on this machine
    assert json.loads((path / "run.json").read_text())["node"]["rank"] == 1


@pytest.mark.parametrize("scope", ["group", "rank"])
def test_what_is_said_of_restarts_counts_ranks_as_the_report_does(tmp_path, scope):
    """By their numbers in the job, on every node of it."""
    script = write(tmp_path / "fail.py", "raise SystemExit(7)")
    words = ["--nnodes", "4", *APART, "--node-rank", "3", "--master-addr", "head", "-n", "1"]
    again = ["--max-restarts", "1", "--restart-scope", scope, "--log-dir", tmp_path / "logs"]
    done = run(*words, *again, script)
    assert done.returncode == 7
    notes = [line for line in done.stderr.splitlines() if line.startswith("note: ")]
    (first,) = (line for line in notes if "exited with code 7" in line)
    assert "rank 3 of 4 (pid " in first
    (events,) = (tmp_path / "logs").glob("*/events.jsonl")
    said = [json.loads(line) for line in events.read_text().splitlines()]
    (detail,) = (e["detail"] for e in said if "exited with code 7" in e.get("detail", ""))
    assert "rank 3 of 4 (pid " in detail


@pytest.mark.torch
def test_two_launchers_on_loopback_reduce(tmp_path):
    script = write(tmp_path / "reduce.py", REDUCE)
    port = free_port()
    with Watched(*node(1, port, script)) as second, Watched(*node(0, port, script)) as first:
        assert (first.end(50), second.end(50)) == (0, 0), (first.err, second.err)
    said = sorted((first.out + second.out).decode().splitlines())
    assert said == [f"[{rank}] rank {rank} of 4: 1111" for rank in range(4)]
