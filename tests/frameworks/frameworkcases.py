"""Small trainings, one for each way in which a framework launches ranks, and how they are run.

Each prints one line per rank, `rank R of N ...`, with what was computed among the ranks; with
BOOM set, rank 1 raises `ValueError: boom`. They end in seconds on two CPUs.
"""

import os
import re
import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from support import PROCESSION, write

BIN = Path(sys.executable).parent
RANKS = 2

SAY = """
import os
def say(rank, of, what):
    if rank == 1 and "BOOM" in os.environ:
        raise ValueError("boom")
    whose = "procession" if "PROCESSION_RUN" in os.environ else "itself"
    # In one piece: ranks share the console.
    os.write(1, f"rank {rank} of {of}: {what}, launched by {whose}\\n".encode())
"""
PROGRAMS = {
    "accelerated.py": """
        import torch
        from accelerate import Accelerator
        from say import say

        def main():
            accelerator = Accelerator(cpu=True)
            model = torch.nn.Linear(4, 1)
            model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), 0.1))
            torch.manual_seed(accelerator.process_index)
            accelerator.backward(model(torch.randn(8, 4)).pow(2).mean())
            optimizer.step()
            weights = torch.stack([p.sum() for p in model.parameters()]).sum()[None]
            both = accelerator.gather(weights)
            same = "same" if both[0] == both[1] else "other"
            say(accelerator.process_index, accelerator.num_processes, f"{same} weights")
            accelerator.end_training()  # else gloo's threads abort some ranks at their exit

        if __name__ == "__main__":
            main()
    """,
    "ddp.py": """
        import os, torch
        from say import say

        torch.distributed.init_process_group("gloo")
        torch.manual_seed(int(os.environ["RANK"]))
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
        model(torch.randn(8, 4)).pow(2).mean().backward()
        total = model.module.weight.grad.sum()[None]
        both = [torch.zeros(1), torch.zeros(1)]
        torch.distributed.all_gather(both, total)
        same = "same" if both[0] == both[1] else "other"
        say(int(os.environ["RANK"]), torch.distributed.get_world_size(), f"{same} gradients")
        torch.distributed.destroy_process_group()
    """,
    "fsdp.py": """
        import os, torch
        from torch.distributed.fsdp import fully_shard
        from say import say

        torch.distributed.init_process_group("gloo")
        mesh = torch.distributed.init_device_mesh("cpu", (2,))
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 1))
        fully_shard(model, mesh=mesh)
        model(torch.randn(8, 4)).pow(2).mean().backward()
        held = sum(p.to_local().numel() for p in model.parameters())
        whole = sum(p.full_tensor().numel() for p in model.parameters())
        part = "part" if held < whole else "all"
        say(int(os.environ["RANK"]), torch.distributed.get_world_size(), f"{part} of {whole}")
        torch.distributed.destroy_process_group()
    """,
    "notebook.py": """
        import sys
        from accelerate import notebook_launcher

        def main():
            import torch
            from accelerate import Accelerator
            from say import say
            accelerator = Accelerator(cpu=True)
            total = accelerator.reduce(torch.tensor([accelerator.process_index + 1.0]))
            say(accelerator.process_index, accelerator.num_processes, f"sum {total.item()}")
            accelerator.end_training()

        if __name__ == "__main__":
            notebook_launcher(main, (), num_processes=2, use_port=sys.argv[1])
    """,
    "debugged.py": """
        import torch
        from accelerate import debug_launcher
        from accelerate.test_utils.scripts import test_ops
        from say import say

        def main():
            test_ops.main()
            ranks = torch.distributed
            say(ranks.get_rank(), ranks.get_world_size(), "test_ops")

        if __name__ == "__main__":
            debug_launcher(main, num_processes=2)
    """,
    "own_notebook_tests.py": """
        from accelerate.test_utils.scripts import test_notebook as own

        if __name__ == "__main__":
            own.test_can_initialize()
            own.test_static_rdzv_backend()
            own.test_c10d_rdzv_backend()
            own.test_monitoring(sleep_sec=1000)
    """,
    "trainer.py": """
        import torch
        from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments
        from say import say

        class Data(torch.utils.data.Dataset):
            def __len__(self):
                return 16

            def __getitem__(self, i):
                return {"input_ids": torch.arange(8) + i, "labels": torch.arange(8) + i}

        torch.manual_seed(0)
        model = LlamaForCausalLM(LlamaConfig(
            vocab_size=64, hidden_size=16, intermediate_size=16, num_hidden_layers=1,
            num_attention_heads=2, num_key_value_heads=2))
        arguments = TrainingArguments(
            "out", use_cpu=True, max_steps=2, per_device_train_batch_size=2, report_to=[],
            save_strategy="no", disable_tqdm=True, ddp_find_unused_parameters=False)
        trainer = Trainer(model, arguments, train_dataset=Data())
        result = trainer.train()
        say(arguments.process_index, arguments.world_size, f"step {result.global_step}")
    """,
    "lightning_trainer.py": """
        import sys, torch
        import lightning
        from say import say

        class Model(lightning.LightningModule):
            def __init__(self):
                super().__init__()
                self.layer = torch.nn.Linear(4, 1)

            def training_step(self, batch, number):
                return self.layer(batch).pow(2).mean()

            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), 0.1)

            def on_train_end(self):
                say(self.global_rank, self.trainer.world_size, f"step {self.trainer.global_step}")

        if __name__ == "__main__":
            trainer = lightning.Trainer(
                accelerator="cpu", devices=2, strategy=sys.argv[1], max_steps=2, logger=False,
                enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
            data = torch.utils.data.DataLoader(torch.randn(16, 4), batch_size=2)
            trainer.fit(Model(), data)
    """,
    "fabric.py": """
        import lightning, torch
        from say import say

        def main(fabric):
            total = fabric.all_reduce(torch.tensor(fabric.global_rank + 1.0), reduce_op="sum")
            say(fabric.global_rank, fabric.world_size, f"sum {total.item()}")
            return fabric.global_rank

        if __name__ == "__main__":
            fabric = lightning.Fabric(accelerator="cpu", devices=2, strategy="ddp_spawn")
            assert fabric.launch(main) == 0
    """,
}


@dataclass
class Case:
    """One way to launch.

    command: what a user types, `{port}` for a free one. needs: the package. said: what each rank
    tells. ours: whether the ranks are procession's when it is adopted. fails: how the command ends
    with BOOM; None: not tried.
    """

    command: list[str]
    needs: str
    said: str
    ours: bool = True
    fails: int | None = 1


ACCELERATE = (
    f"accelerate launch --multi_gpu --num_processes {RANKS} --num_machines 1 --mixed_precision no "
    "--dynamo_backend no --main_process_port 0"
).split()
TORCHRUN = ["torchrun", "--nproc-per-node", "2"]
CASES = {
    "torchrun, DDP": Case([*TORCHRUN, "ddp.py"], "torch", "same gradients"),
    "torchrun, FSDP": Case([*TORCHRUN, "fsdp.py"], "torch", "part of 49"),
    "accelerate launch": Case([*ACCELERATE, "accelerated.py"], "accelerate", "same weights"),
    "notebook_launcher": Case(["python", "notebook.py", "{port}"], "accelerate", "sum 3.0"),
    "debug_launcher": Case(["python", "debugged.py"], "accelerate", "test_ops", fails=None),
    "transformers Trainer": Case([*TORCHRUN, "trainer.py"], "transformers", "step 2"),
    "Lightning ddp": Case(
        ["python", "lightning_trainer.py", "ddp"], "lightning", "step 2", ours=False, fails=None
    ),
    "Lightning ddp_spawn": Case(
        ["python", "lightning_trainer.py", "ddp_spawn"], "lightning", "step 2"
    ),
    "Fabric ddp_spawn": Case(["python", "fabric.py"], "lightning", "sum 3.0", fails=None),
    "TorchX local_cwd": Case(
        ["torchx", "run", "-s", "local_cwd", "dist.ddp", "-j", "1x2", "--script", "accelerated.py"],
        "torchx",
        "same weights",
        fails=None,
    ),
}


@dataclass
class Done:
    """How a command ended. cpu: seconds of it and of all that it waited for."""

    code: int
    output: str
    wall: float
    cpu: float

    def ranks(self):
        """Give what ranks said, by rank: (what, who launched it)."""
        found = re.findall(r"rank (\d) of 2: (.*?), launched by (\w+)", self.output)
        return {int(rank): (what, who) for rank, what, who in found}


def missing(package):
    """Tell why a case cannot be run, "" if it can."""
    return "" if find_spec(package) else f"{package} is not installed (make test-frameworks)"


def prepare(directory):
    """Write the programs into a directory."""
    write(directory / "say.py", SAY)
    for name, source in PROGRAMS.items():
        write(directory / name, source)


def run(case, directory, *, adopted, timeout=400, **variables):
    """Run a case in a directory that `prepare` has filled; gives how it ended."""
    words = [word.format(port=_free_port()) for word in case.command]
    words[0] = str(BIN / words[0])
    if adopted:
        words = [*PROCESSION, "adopt", "--", *words]
    env = {
        **os.environ,
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        "OMP_NUM_THREADS": "1",
        "ACCELERATE_USE_CPU": "true",
        "HF_HUB_OFFLINE": "1",
        "GLOO_SOCKET_IFNAME": "lo",
        "TORCHINDUCTOR_CACHE_DIR": str(directory / "inductor"),
        "HF_HOME": str(directory / "huggingface"),
        **variables,
    }
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(
        words,
        cwd=directory,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout,
        check=False,
    )
    wall, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Done(done.returncode, done.stdout, wall, cpu)


def _free_port():
    from seams.system import free_port

    return free_port()
