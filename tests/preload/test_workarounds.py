"""What is done about faults of libraries that show more often after early imports."""

import subprocess
import sys
import types

import pytest

from seams.forkserver import workarounds
from support import PROCESSION, write

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


def module(monkeypatch, name, **names):
    made = types.ModuleType(name)
    made.__dict__.update(names)
    monkeypatch.setitem(sys.modules, name, made)
    return made


def test_wherever_the_function_is_known_the_lock_is_given_away_first(monkeypatch):
    order = []

    def destroy_process_group(group=None):
        """Destroy it."""
        order.append(group)
        return "destroyed"

    def other():
        pass

    home = module(monkeypatch, workarounds.MODULE, destroy_process_group=destroy_process_group)
    user = module(monkeypatch, "a_trainer", destroy_process_group=destroy_process_group)
    namesake = module(monkeypatch, "no_trainer", destroy_process_group=other)
    monkeypatch.setattr(workarounds.time, "sleep", order.append)
    for _ in range(2):  # the second time there is nothing to be done
        workarounds.apply()
    assert user.destroy_process_group is home.destroy_process_group
    assert namesake.destroy_process_group is other
    assert home.destroy_process_group(group=3) == "destroyed"
    assert order == [workarounds.MOMENT, 3]
    assert home.destroy_process_group.__doc__ == "Destroy it."


def test_without_torch_nothing_is_done(monkeypatch):
    monkeypatch.delitem(sys.modules, workarounds.MODULE, raising=False)
    workarounds.apply()
    assert workarounds.MODULE not in sys.modules


@pytest.mark.long
@pytest.mark.torch
@pytest.mark.timeout(300)
def test_a_training_ends_though_its_model_outlives_the_process_group(tmp_path, monkeypatch):
    """From the second run on, when all imports are known, it hung in one of four runs."""
    pytest.importorskip("torch")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))
    script = write(tmp_path / "training.py", TRAINING)
    for _ in range(6):
        done = subprocess.run([*PROCESSION, "run", "-n", "2", script], capture_output=True,
                              text=True, timeout=40, check=False)  # fmt: skip
        assert done.returncode == 0, done.stderr
