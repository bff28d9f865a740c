"""DistributedDataParallel on the CPU: torch finds the other ranks by the launcher's environment.

procession run -n 4 examples/torch_ddp.py
"""

import hashlib

import torch
import torch.distributed as dist

# Imported here, before there is a process group: DDP would import it, too, but then its functions
# keep the process group for ever, as the default of their argument `group`.
import torch.distributed.nn
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def checksum(model):
    """The first eight bytes of the hash of all parameters, as a tensor that can be gathered."""
    # Without numpy, which torch does not bring along.
    parts = [parameter.detach().view(torch.uint8).flatten() for parameter in model.parameters()]
    data = bytes(torch.cat(parts).tolist())
    return torch.tensor(list(hashlib.sha256(data).digest()[:8]), dtype=torch.uint8)


def train():
    """The last loss, and the checksum of the model."""
    torch.manual_seed(dist.get_rank())  # each rank begins differently: DDP gives all rank 0's model
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    for _ in range(20):
        inputs = torch.randn(64, 8)  # each rank has other data, by its seed
        targets = inputs.sin().sum(dim=1, keepdim=True)
        loss = nn.functional.mse_loss(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()  # DDP averages the gradients over all ranks here
        optimizer.step()
    return loss.item(), checksum(model)


def main():
    dist.init_process_group("gloo")  # reads RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT
    loss, own = train()
    of_all = [torch.empty_like(own) for _ in range(dist.get_world_size())]
    dist.all_gather(of_all, own)
    print(f"loss {loss:.4f}  parameters {bytes(own.tolist()).hex()}", flush=True)

    # The model is gone by now. A process group that lives longer than this call, because a model
    # or anything else refers to it, now and then ends its rank by SIGABRT, or never, at exit.
    dist.destroy_process_group()
    if any(not torch.equal(own, other) for other in of_all):
        raise SystemExit("the ranks ended with different parameters")


if __name__ == "__main__":
    main()
