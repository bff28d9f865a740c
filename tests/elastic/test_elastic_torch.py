"""With the real torch: names, DDP, `@record` both ways, and under torch's own agent."""

import json
import signal

import pytest

from support import Launcher, gone, run_python, until, write

# Not imported here: a test process with torch in it would make every test behind this one slow.
pytestmark = pytest.mark.torch


def run(tmp_path, source):
    done = run_python(write(tmp_path / "main.py", source), timeout=55, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def test_names_and_parameters(tmp_path):
    """Every public name is there; parameters have the same names, order and defaults."""
    source = """
        import importlib, inspect

        MODULES = ["", ".api", ".errors", ".errors.error_handler", ".errors.handlers",
                   ".redirects", ".tail_log"]
        MORE = {".redirects": ["redirect", "redirect_stdout", "redirect_stderr"],
                ".api": ["_validate_full_rank", "_terminate_process_handler", "logger"],
                ".errors": ["logger"], ".tail_log": ["logger"]}
        # Beyond the original: the documented older form, and defaults where it has none.
        ADDED = {"start_processes": {"log_dir", "redirects", "tee"}, "PContext": {"numa_options"}}

        def parameters(thing):
            return inspect.signature(thing).parameters.values()

        def default(p):
            return p.default if isinstance(p.default, (int, str, float, type(None))) else ...

        def compare(where, name, theirs, ours):
            old = [p for p in parameters(theirs)]
            new = [p for p in parameters(ours) if p.name not in ADDED.get(name, ())]
            assert [p.name for p in new] == [p.name for p in old], (where, name, new, old)
            for p, q in zip(new, old):
                if default(q) is not ...:
                    assert default(p) == default(q), (where, name, p, q)

        count = 0
        for module in MODULES:
            old = importlib.import_module("torch.distributed.elastic.multiprocessing" + module)
            new = importlib.import_module("procession.elastic" + module)
            names = [*getattr(old, "__all__", []), *MORE.get(module, [])]
            assert set(getattr(old, "__all__", [])) <= set(getattr(new, "__all__", [])), module
            for name in names:
                theirs, ours = getattr(old, name), getattr(new, name)
                count += 1
                if not callable(theirs) or name in ("Std", "redirect_stdout", "redirect_stderr"):
                    continue
                assert isinstance(ours, type) == isinstance(theirs, type), name
                if not (isinstance(theirs, type) and issubclass(theirs, Exception)):
                    compare(module, name, theirs, ours)
                for method, call in vars(theirs).items() if isinstance(theirs, type) else ():
                    if inspect.isfunction(call) and not method.startswith("_"):
                        compare(name, method, call, getattr(ours, method))
        print("names", count > 30)

        from torch.distributed.elastic.multiprocessing import Std as theirs
        from procession.elastic import Std as ours
        assert {s.name: int(s) for s in theirs} == {s.name: int(s) for s in ours}
    """
    assert run(tmp_path, source).stdout == "names True\n"


DDP = """
    import os

    import torch
    import torch.distributed as dist

    from procession.elastic import DefaultLogsSpecs, Std, start_processes
    from procession.system.ports import free_port


    def train(steps, shared, queue, received):
        dist.init_process_group("gloo")
        rank = dist.get_rank()
        torch.manual_seed(0)
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        generator = torch.Generator().manual_seed(rank)
        for _ in range(steps):
            x = torch.randn(8, 4, generator=generator)
            loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print("loss", loss.item() < 1)
        shared[rank] += 1
        queue.put(torch.full((2,), float(rank)))
        received.wait()  # until then the tensor is in our hands
        dist.destroy_process_group()
        return {"rank": rank, "weight": model.module.weight.detach()}


    if __name__ == "__main__":
        port = str(free_port())
        envs = {
            rank: {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2,
                   "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": 1}
            for rank in range(2)
        }
        shared = torch.zeros(2).share_memory_()
        multiprocessing = torch.multiprocessing.get_context("spawn")
        queue, received = multiprocessing.SimpleQueue(), multiprocessing.Event()
        pc = start_processes(
            name="trainer",
            entrypoint=train,
            args={rank: (30, shared, queue, received) for rank in range(2)},
            envs=envs,
            logs_specs=DefaultLogsSpecs("logs", redirects=Std.ERR, tee={1: Std.OUT}),
        )
        got = sorted(queue.get().tolist() for _ in range(2))
        received.set()
        result = pc.wait()
        assert not result.is_failed(), result
        assert got == [[0.0, 0.0], [1.0, 1.0]], got
        assert shared.tolist() == [1.0, 1.0], shared
        assert [v["rank"] for v in result.return_values.values()] == [0, 1]
        weights = [v["weight"] for v in result.return_values.values()]
        assert torch.equal(*weights), weights
"""


@pytest.mark.long
def test_ddp(tmp_path):
    """The process layer of a training: tensors and queues of torch as arguments and values."""
    done = run(tmp_path, DDP)
    assert sorted(done.stdout.splitlines()) == ["[trainer1]:loss True", "loss True"]


RECORDED = """
    import sys
    from {errors} import record


    @record
    def main():
        raise LookupError("no such " + sys.argv[1])


    if __name__ == "__main__":
        main()
"""
OURS = "procession.elastic"
TORCHS = "torch.distributed.elastic.multiprocessing"


@pytest.mark.long
@pytest.mark.parametrize(
    ("launcher", "script"), [(OURS, TORCHS), (TORCHS, OURS)], ids=["torch's", "torch"]
)
def test_record_of_the_one_under_the_other(tmp_path, launcher, script):
    recorded = write(tmp_path / "recorded.py", RECORDED.format(errors=f"{script}.errors"))
    source = f"""
        import json, sys
        from {launcher} import DefaultLogsSpecs, start_processes
        from {launcher}.errors import ChildFailedError

        if __name__ == "__main__":
            pc = start_processes(
                "work", sys.executable, {{0: ({str(recorded)!r}, "word")}}, {{0: {{}}}},
                DefaultLogsSpecs("logs"),
            )
            failures = pc.wait().failures
            assert "LookupError: no such word" in str(ChildFailedError("work", failures))
            print(json.dumps(failures[0].message))
    """
    message = json.loads(run(tmp_path, source).stdout)
    assert message["message"] == "LookupError: no such word"
    assert "in main" in message["extraInfo"]["py_callstack"]
    assert message["extraInfo"]["timestamp"].isdigit()


@pytest.mark.long
def test_record_knows_torchs_child_failed_error(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(tmp_path / "own.json"))
    child = write(tmp_path / "child.json", '{"message": {"message": "of the child", "extraInfo": '
                  '{"py_callstack": "...", "timestamp": "7"}}}')  # fmt: skip
    source = f"""
        from procession.elastic.errors import ProcessFailure, record
        from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

        @record
        def launch():
            raise ChildFailedError("trainer", {{0: ProcessFailure(0, 1, 3, {str(child)!r})}})

        try:
            launch()
        except ChildFailedError as e:
            assert "of the child" in str(e) or "..." in str(e)
    """
    run(tmp_path, source)
    told = json.loads((tmp_path / "own.json").read_text())
    assert told["message"]["message"] == "of the child"
    assert told["message"]["errorCode"] == 3


AGENT = """
    import os
    import sys
    import time

    import torch
    import torch.distributed as dist
    import torch.distributed.elastic.agent.server.local_elastic_agent as agents
    import torch.distributed.elastic.rendezvous.registry as registry
    from torch.distributed.elastic.agent.server.api import WorkerSpec
    from torch.distributed.elastic.multiprocessing import SignalException
    from torch.distributed.elastic.rendezvous import RendezvousParameters

    import procession.elastic
    from {specs} import DefaultLogsSpecs, Std

    agents.start_processes = procession.elastic.start_processes


    def job(seed):
        rank, attempt = (int(os.environ[n]) for n in ("RANK", "TORCHELASTIC_RESTART_COUNT"))
        # A store for each attempt: in that of the agent, gloo may find addresses of the last one.
        place = f"file://{{os.getcwd()}}/store_{{attempt}}"
        dist.init_process_group("gloo", init_method=place, rank=rank, world_size=2)
        total = torch.tensor([rank + 1.0])
        dist.all_reduce(total)
        print("attempt", attempt)
        if attempt < 2 and rank == 1:
            raise ValueError(f"in attempt {{attempt}}")
        dist.destroy_process_group()
        return seed, rank, attempt, total


    def wait():
        print("waiting", os.getpid(), flush=True)
        time.sleep(60)


    def agent(entrypoint, args, **options):
        found = registry.get_rendezvous_handler(
            RendezvousParameters(
                backend="c10d", endpoint="localhost:0", run_id="two_restarts",
                min_nodes=1, max_nodes=1, is_host="true",
            )
        )
        spec = WorkerSpec(
            role="trainer", local_world_size=2, entrypoint=entrypoint, args=args,
            rdzv_handler=found, monitor_interval=0.01, **options,
        )
        specs = DefaultLogsSpecs("logs", tee=Std.OUT, redirects=Std.ERR)
        return agents.LocalElasticAgent(spec, logs_specs=specs, start_method="spawn")
"""


@pytest.mark.parametrize(
    "specs", [pytest.param(TORCHS, id="their specs"),
              pytest.param(OURS, id="our specs", marks=pytest.mark.long)],
)  # fmt: skip
def test_under_torchs_agent_a_job_of_two_restarts_runs_to_its_end(tmp_path, specs):
    source = (
        AGENT.format(specs=specs)
        + """
    if __name__ == "__main__":
        torchs = agent(job, (7,), max_restarts=2)
        result = torchs.run()
        assert type(torchs._pcontext) is procession.elastic.MultiprocessContext
        assert not result.is_failed(), result
        assert {r: v[:3] for r, v in result.return_values.items()} == {0: (7, 0, 2), 1: (7, 1, 2)}
        assert all(v[3].item() == 3.0 for v in result.return_values.values())
        print("ended well")
    """
    )
    done = run(tmp_path, source)
    (run_dir,) = (tmp_path / "logs").iterdir()
    assert run_dir.name.startswith("two_restarts_")
    assert sorted(d.name for d in run_dir.iterdir()) == ["attempt_0", "attempt_1", "attempt_2"]
    for attempt in range(3):
        told = run_dir / f"attempt_{attempt}" / "1" / "error.json"
        assert told.exists() == (attempt < 2)
        assert f"[trainer1]:attempt {attempt}\n" in done.stdout
    assert "ended well" in done.stdout


def test_under_torchs_agent_a_signal_ends_the_job(tmp_path):
    """The agent looks for torch's own `SignalException`, and hands its signal on."""
    source = (
        AGENT.format(specs=TORCHS)
        + """
    if __name__ == "__main__":
        try:
            agent(wait, (), max_restarts=0).run()
        except SignalException as e:
            print("signalled", e.sigval.name)
    """
    )
    with Launcher(write(tmp_path / "main.py", source), cwd=tmp_path) as launcher:
        waits = until(
            lambda: [line for line in launcher.lines if "waiting" in line][1:], patience=40
        )
        pids = [int(line.split()[-1]) for line in launcher.lines if "waiting" in line]
        assert len(waits) == 1
        launcher.signal(signal.SIGTERM)
        assert launcher.said("signalled") == "SIGTERM"
        assert launcher.end() == 0
        gone(pids)
