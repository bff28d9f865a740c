"""A rank that trains a small model for 20 steps, its gradients averaged by DDP under gloo."""

import torch
import torch.distributed as dist

# DDP would import this, too, but then it keeps the process group, which aborts some ranks at exit.
import torch.distributed.nn
from torch.nn.parallel import DistributedDataParallel

STEPS = 20


def train() -> float:
    torch.manual_seed(dist.get_rank())
    model = DistributedDataParallel(torch.nn.Linear(64, 64))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(STEPS):
        loss = model(torch.randn(32, 64)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return sum(float(p.detach().double().sum()) for p in model.parameters())


dist.init_process_group("gloo")
print(f"trained to {train():.9f};", flush=True)
dist.destroy_process_group()
