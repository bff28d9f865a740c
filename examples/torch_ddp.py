"""DistributedDataParallel on the CPU: torch finds the other ranks by the launcher's environment.

procession run -n 4 examples/torch_ddp.py
"""

import hashlib

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def checksum(model):
    """The first eight bytes of the hash of all parameters, as a tensor that can be gathered."""
    data = b"".join(parameter.detach().numpy().tobytes() for parameter in model.parameters())
    return torch.tensor(list(hashlib.sha256(data).digest()[:8]), dtype=torch.uint8)


def main():
    dist.init_process_group("gloo")  # reads RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT
    rank, world_size = dist.get_rank(), dist.get_world_size()

    torch.manual_seed(rank)  # each rank begins differently: DDP gives all the weights of rank 0
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    for _ in range(20):
        inputs = torch.randn(64, 8)  # each rank has other data, by its seed
        targets = inputs.sin().sum(dim=1, keepdim=True)
        loss = nn.functional.mse_loss(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()  # DDP averages the gradients over all ranks here
        optimizer.step()

    own = checksum(model)
    of_all = [torch.empty_like(own) for _ in range(world_size)]
    dist.all_gather(of_all, own)
    print(f"loss {loss.item():.4f}  parameters {bytes(own.tolist()).hex()}", flush=True)
    dist.destroy_process_group()
    if any(not torch.equal(own, other) for other in of_all):
        raise SystemExit("the ranks ended with different parameters")


if __name__ == "__main__":
    main()
