"""torch: rendezvous from the environment, tensors in shared memory, `@record`, data loaders."""

import json
import tempfile

import pytest

import procession
from support import METHODS, PROCESSION, PYTHON, run_procession, run_program, run_python, write

# Not imported here: a test process with torch in it would make every test behind this one slow.
pytestmark = pytest.mark.torch


def run(*words, **options):
    return run_procession("run", *words, timeout=50, **options)


def test_process_group_by_the_environment(tmp_path):
    script = write(
        tmp_path / "reduce.py",
        """
        import torch
        import torch.distributed as dist

        dist.init_process_group("gloo")
        value = torch.tensor([dist.get_rank() + 1.0])
        dist.all_reduce(value)
        print("sum", value.item(), "of", dist.get_world_size())
        dist.destroy_process_group()
        """,
    )
    done = run("-n", 2, script)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["[0] sum 3.0 of 2", "[1] sum 3.0 of 2"]


# A launcher of functions, as a user writes it.
FUNCTIONS = """
    import os

    import torch
    import torch.distributed as dist

    import procession


    def work(shared, factors):
        rank = int(os.environ["RANK"])
        dist.init_process_group("gloo")
        shared[rank] += 10 * (rank + 1)
        total = torch.tensor([float(rank)])
        dist.all_reduce(total)
        dist.destroy_process_group()
        return {"rank": rank, "total": total, "scaled": factors * rank}


    shared = torch.ones(2).share_memory_()
    values = procession.run(
        work, args=(shared, torch.arange(3.0)), nproc=2, start_method=METHOD
    )
    assert shared.tolist() == [11.0, 21.0], shared
    assert [v["rank"] for v in values] == [0, 1]
    assert [v["total"].item() for v in values] == [1.0, 1.0]
    assert values[1]["scaled"].tolist() == [0.0, 1.0, 2.0]
    assert isinstance(values[0]["total"], torch.Tensor)
    print("all is well")
"""


@pytest.mark.long
@pytest.mark.parametrize("method", METHODS)
def test_functions_with_tensors(tmp_path, method):
    script = write(tmp_path / "functions.py", FUNCTIONS.replace("METHOD", f'"{method}"'))
    done = run_python(script, timeout=50)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "all is well\n"


@pytest.mark.long
def test_large_tensor_as_argument_and_as_value(tmp_path):
    script = write(
        tmp_path / "large.py",
        """
        import torch

        import procession

        big = torch.arange(4_000_000, dtype=torch.float32)
        values = procession.run(lambda t, k: t * k, args={0: (big, 2), 1: (big, 3)}, nproc=2)
        assert torch.equal(values[0], big * 2) and torch.equal(values[1], big * 3)
        assert torch.equal(big, torch.arange(4_000_000, dtype=torch.float32))
        print("all is well")
        """,
    )
    done = run_python(script, timeout=50)
    assert (done.returncode, done.stdout) == (0, "all is well\n"), done.stderr


RECORDED = """
    import os, signal
    from torch.distributed.elastic.multiprocessing.errors import record

    def load(path):
        raise FileNotFoundError(f"no data in {path}")

    @record
    def main():
        if os.environ["RANK"] == "1":
            load("/no/such/data")
        while True:
            signal.pause()

    if __name__ == "__main__":
        main()
"""


@pytest.mark.parametrize("how", ["script", pytest.param("program", marks=pytest.mark.long)])
def test_record(tmp_path, how):
    script = write(tmp_path / "recorded.py", RECORDED)
    words = [script] if how == "script" else ["--no-python", PYTHON, script]
    done = run("-n", 2, "--log-dir", tmp_path / "logs", "-r", 3, *words)
    assert done.returncode == 1
    report = done.stderr[done.stderr.index(" failed: rank 1 of 2") :]
    assert "no data in /no/such/data" in report.splitlines()[0], report
    assert "FileNotFoundError: no data in /no/such/data" in report
    assert "in load" in report
    (run_dir,) = (tmp_path / "logs").iterdir()
    told = json.loads((run_dir / "attempt_0" / "1" / "error.json").read_text())
    assert "FileNotFoundError" in told["message"]["message"]
    assert told["message"]["extraInfo"]["py_callstack"].startswith("Traceback")
    assert not (run_dir / "attempt_0" / "0" / "error.json").exists()


def test_data_loader_with_workers(tmp_path):
    script = write(
        tmp_path / "loader.py",
        """
        import torch
        from torch.utils.data import DataLoader, TensorDataset

        if __name__ == "__main__":
            data = TensorDataset(torch.arange(20.0))
            loader = DataLoader(data, batch_size=4, num_workers=2)
            print("sum", sum(batch.sum().item() for (batch,) in loader))
        """,
    )
    done = run("-n", 2, script)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["[0] sum 190.0", "[1] sum 190.0"]


def test_data_loader_of_a_rank_that_is_killed(tmp_path, monkeypatch):
    # Its workers' sockets lie in directories that only the rank itself would have removed; their
    # paths have room for 108 characters, and that of this test may be long.
    short = tempfile.TemporaryDirectory(dir="/tmp")
    monkeypatch.setenv("TMPDIR", short.name)
    script = write(
        tmp_path / "loader.py",
        """
        import os, signal
        import torch
        from torch.utils.data import DataLoader, TensorDataset

        data = TensorDataset(torch.arange(2000.0))
        for number, _ in enumerate(DataLoader(data, batch_size=1, num_workers=2)):
            if number == 10 and os.environ["RANK"] == "0":
                os.kill(os.getpid(), signal.SIGKILL)
        while True:
            signal.pause()
        """,
    )
    with short:
        done = run("-n", 2, script)
    assert done.returncode == 137
    assert "rank 0 of 2" in done.stderr


def test_data_loader_without_enough_shared_memory(tmp_path):
    script = write(
        tmp_path / "loader.py",
        """
        import torch
        from torch.utils.data import DataLoader

        list(DataLoader([torch.zeros(1_000_000)] * 4, num_workers=1))
        """,
    )
    mount = 'mount -t tmpfs -o size=1m small /dev/shm || exit 77; exec "$@"'
    alone = ("unshare", "-m", "--propagation", "private", "sh", "-c", mount, "sh")
    done = run_program(*alone, *PROCESSION, "run", "-n", "1", script, timeout=50)
    if done.returncode in (77, 127) or done.stderr.startswith("unshare:"):
        pytest.skip(f"no small /dev/shm can be mounted here: {done.stderr.strip()}")
    assert " of 1.0 MB: if it was full, make it larger (docker run --shm-size=8g)" in done.stderr


def test_torch_is_not_imported_for_those_who_do_not_use_it():
    assert procession.run(_modules, nproc=1) == [[]]


def _modules():
    import sys

    return sorted({"torch", "numpy", "jax"} & set(sys.modules))
