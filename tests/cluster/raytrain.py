"""A rank that trains with the others."""


def train(steps):
    """Train a small model on data of its own; gives the weights, which must be those of all."""
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(rank)
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
