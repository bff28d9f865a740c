"""The line of torchrun's users, on machines that find each other: c10d, in network namespaces."""

import contextlib
import json
import os

import pytest
from commandline import PROCESSION, Watched

from network import network
from seams.system import free_port
from support import write

pytestmark = pytest.mark.timeout(300)
SEE = """
import json, os, sys
names = ["RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE",
         "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT",
         "TORCHELASTIC_MAX_RESTARTS"]
sys.stdout.write(json.dumps({name: os.environ[name] for name in names}) + "\\n")
"""
TRAIN = """
import os
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = DistributedDataParallel(torch.nn.Linear(4, 1))
for _ in range(5):
    batch = torch.randn(8, 4)
    loss = ((model(batch) - batch.sum(1, keepdim=True)) ** 2).mean()
    model.zero_grad()
    loss.backward()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= 0.1 * parameter.grad
weights = [p.sum().item() for p in model.parameters()]
print(f"weights {weights} of {dist.get_world_size()}", flush=True)
dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def machines():
    with network(8) as made:
        yield made


@contextlib.contextmanager
def launched(hosts, nnodes, port, *words, order=None, job="J", env=None):
    """The same line on each host; gives the launchers in the order of the hosts."""
    line = ["run", "--lease", "40", "--nnodes", nnodes, "--rdzv-id", job, "--rdzv-backend", "c10d",
            "--rdzv-endpoint", f"{hosts[0].address}:{port}", *words]  # fmt: skip
    found = {}
    with contextlib.ExitStack() as open_:
        for number in order or range(len(hosts)):
            host = hosts[number]
            more = {"GLOO_SOCKET_IFNAME": host.cable, **(env or {})}
            found[number] = open_.enter_context(
                Watched(*line, program=host.command(*PROCESSION), env={**os.environ, **more})
            )
        yield [found[number] for number in range(len(hosts))]


def ended(launchers, code=0, patience=100):
    for each in launchers:
        assert each.end(patience) == code, bytes(each.err).decode()


@pytest.mark.parametrize(("count", "order"), [(3, (2, 0, 1)), (8, None)])
def test_launchers_find_each_other_in_any_order(tmp_path, machines, count, order):
    script = write(tmp_path / "see.py", SEE)
    hosts, port = machines[:count], free_port()
    words = ["-n", "2", "--prefix", "", "--max-restarts", "2", script]
    with launched(hosts, count, port, *words, order=order) as launchers:
        ended(launchers)
    seen = [[json.loads(line) for line in each.out.splitlines()] for each in launchers]
    nodes = sorted(seen, key=lambda ranks: int(ranks[0]["GROUP_RANK"]))
    flat = [rank for ranks in nodes for rank in sorted(ranks, key=lambda r: int(r["RANK"]))]
    meet = {(rank.pop("MASTER_ADDR"), rank.pop("MASTER_PORT")) for rank in flat}
    assert {address for address, _ in meet} == {hosts[seen.index(nodes[0])].address}
    assert len(meet) == 1
    for number, rank in enumerate(flat):
        node, local = divmod(number, 2)
        assert rank == {
            "RANK": str(number), "LOCAL_RANK": str(local), "WORLD_SIZE": str(2 * count),
            "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": str(node), "GROUP_WORLD_SIZE": str(count),
            "TORCHELASTIC_RUN_ID": "J", "TORCHELASTIC_RESTART_COUNT": "0",
            "TORCHELASTIC_MAX_RESTARTS": "2",
        }  # fmt: skip
    for each in launchers:
        assert b"no secret is set: everyone who reaches" in each.err


@pytest.mark.torch
def test_a_training_on_two_machines(tmp_path, machines, monkeypatch):
    script = write(tmp_path / "train.py", TRAIN)
    with launched(machines[:2], 2, free_port(), "-n", "1", "--prefix", "", script) as launchers:
        ended(launchers)
    first, second = (bytes(each.out) for each in launchers)
    assert first == second
    assert first.startswith(b"weights [")
    assert first.endswith(b"] of 2\n")
