"""What is done about faults of libraries that show more often after early imports."""

import pytest

from support import PROCESSION, run_program, write

TRAINING = """
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

def main():
    dist.init_process_group("gloo")
    model = DistributedDataParallel(torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.randn(16, 8)).sum().backward()
        optimizer.step()
    dist.destroy_process_group()  # the model, which is freed after it, refers to the group

main()
"""


@pytest.mark.long
@pytest.mark.torch
@pytest.mark.timeout(300)
def test_a_training_ends_though_its_model_outlives_the_process_group(tmp_path, monkeypatch):
    """From the second run on, when all imports are known, it hung in one of four runs."""
    script = write(tmp_path / "training.py", TRAINING)
    for _ in range(6):
        done = run_program(*PROCESSION, "run", "-n", "2", script)
        assert done.returncode == 0, done.stderr
