"""Job lines of torchrun under the real one and under ours: what each rank finds is the same."""

import json
import os
import sys
from pathlib import Path

import pytest

from seams.system import free_port
from support import PROCESSION, PYTHON, run_program, write

TORCHRUN = (sys.executable, Path(__file__).with_name("torchrunlines.py"))
OURS = Path(sys.executable).with_name("procession-torchrun")

SEEN = """
import json, os, sys

def note(into, *words):
    local = words[0]
    path = f"{into}/{os.environ['RANK']}.{local}"
    with open(path, "w") as f:
        json.dump({"env": dict(os.environ), "argv": sys.argv[2:]}, f)

if __name__ == "__main__":
    note(*sys.argv[1:])
"""
ARGUMENTS = ["${local_rank}", "$local_rank-$$-$other-${another}", "--sep", ":", "x"]

# What may differ from torchrun: variable -> whether our value is right for theirs.
EXPLAINED = {
    # Here rank 0 hosts the store: there is no agent that would.
    "TORCHELASTIC_USE_AGENT_STORE": lambda theirs, ours: (theirs, ours) == ("True", "False"),
    # Both say where ranks describe their failures.
    "TORCHELASTIC_ERROR_FILE": lambda theirs, ours: theirs.endswith("error.json") and ours,
    # Cores by ranks, where torchrun says 1.
    "OMP_NUM_THREADS": lambda theirs, ours: theirs == "1" and int(ours) >= 1,
}
# Nobody has asked for a name: ours is the run's.
UNNAMED = {"TORCHELASTIC_RUN_ID": lambda theirs, ours: theirs and ours}
# On one machine, with nobody else to be told: a free port, on the loopback interface.
FREE = {
    "MASTER_ADDR": lambda _, ours: ours == "127.0.0.1",
    "MASTER_PORT": lambda _, ours: 1024 < int(ours) < 65536,
}
# Of the shell and of the library for terminals that torch loads.
NOISE = {"_", "PYTEST_CURRENT_TEST", "PWD", "OLDPWD", "SHLVL", "LINES", "COLUMNS"}


def job_lines(port, other, third):
    """Give lines as (words, variables, what may differ besides); the ports are free ones."""
    free = {**UNNAMED, **FREE}
    return [
        (["--nproc-per-node", "2", "see.py"], {}, free),
        (["--standalone", "--nproc_per_node=2", "--role=trainer", "see.py"], {}, free),
        (["--nnodes=1", "--rdzv-backend=c10d", "--rdzv_endpoint=localhost:0", "--rdzv-id=job7",
          "--rdzv_conf=timeout=60,read_timeout=30", "see.py"], {}, FREE),
        (["--nnodes", "1:1", "--master-addr", "127.0.0.1", "--master-port", f"{port}",
          "--max-restarts", "2", "see.py"], {}, UNNAMED),
        (["--rdzv-endpoint", f"127.0.0.1:{other}", "--nproc-per-node=2", "--rdzv-id", "seven",
          "see.py"], {}, {}),
        (["--standalone", "--nproc-per-node", "2", "--no-python", PYTHON, "see.py"], {}, free),
        (["--nnodes", "1", "-m", "see"], {"OMP_NUM_THREADS": "3"}, free),
        (["--run-path", "--start-method", "fork", "see.py"], {}, free),
        (["--virtual-local-rank", "--nproc-per-node", "2", "see.py"],
         {"CUDA_VISIBLE_DEVICES": "5,MIG-11-22"}, free),
        (["--virtual-local-rank", "--nproc-per-node", "2", "see.py"], {}, free),
        (["--nproc-per-node", "2", "-r", "3", "-t", "0:1,7:2", "--log-dir", "logs",
          "--local-ranks-filter", "0,7", "--duplicate-stdout-filters", "a,,b,c", "see.py"],
         {}, free),
        (["see.py"], {"PET_NPROC_PER_NODE": "2", "PET_ROLE": "r", "PET_STANDALONE": "1",
                      "PET_MODULE": "0"}, free),
        (["--nnodes", "1", "--standalone", "--redirects", "0", "see.py", "--"], {}, free),
        (["--signals-to-handle", "SIGTERM,SIGUSR1", "--shutdown-timeout", "5",
          "--monitor-interval", "1", "--local-addr", "127.0.0.1", "see.py"], {}, free),
        (["--nnodes", "2", "--node_rank", "0", "--nproc-per-node", "2", "--master_addr",
          "127.0.0.1", "--master_port", f"{third}", "see.py"], {}, {}),
        (["--nnodes=2", "--node-rank=1", "--nproc-per-node=2", f"--rdzv-endpoint=127.0.0.1:{third}",
          "see.py"], {}, {}),
        (["--nproc-per-node", "cpu", "--event-log-handler", "null", "see.py"], {}, free),
    ]  # fmt: skip


def seen_in(directory):
    return {path.name: json.loads(path.read_text()) for path in sorted(directory.iterdir())}


def job(tmp_path, whose, number, words, env):
    """Make a directory for a job to run in, and say what is to run there."""
    cwd = tmp_path / f"{whose}{number}"
    write(cwd / "see.py", SEEN)
    (cwd / "seen").mkdir()
    whole = [*words, "seen", *ARGUMENTS]
    if "--run-path" in words:
        whole = [str(cwd / "see.py") if word == "see.py" else word for word in whole]
    return {"words": whole, "env": env, "cwd": str(cwd), "said": str(cwd / "said")}


@pytest.mark.torch
@pytest.mark.long
@pytest.mark.timeout(240)
def test_ranks_find_what_they_find_under_torchrun(tmp_path, monkeypatch):
    (tmp_path / "tmp").mkdir()  # torchrun leaves a directory of each job there
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    lines = job_lines(free_port(), free_port(), free_port())
    jobs = [job(tmp_path, "theirs", i, words, env) for i, (words, env, _) in enumerate(lines)]
    done = run_program(*TORCHRUN, input=json.dumps(jobs), timeout=200)
    assert done.returncode == 0, done.stderr
    codes = json.loads(done.stdout.splitlines()[-1])
    differences = []
    for number, (words, env, explained) in enumerate(lines):
        said = (tmp_path / f"theirs{number}" / "said").read_text()
        assert codes[number] == 0, (words, said)
        ours = job(tmp_path, "ours", number, words, env)
        alone = [*PROCESSION, "run", "--engine", "none"]  # the other machine does not come
        several = "--nnodes 2" in " ".join(words).replace("=", " ")
        for program in [alone] if several else ([*PROCESSION, "run"], [OURS]):
            got = run_program(*program, *ours["words"], cwd=ours["cwd"], env={**os.environ, **env})
            assert got.returncode == 0, (words, got.stderr)
            theirs_seen = seen_in(tmp_path / f"theirs{number}" / "seen")
            ours_seen = seen_in(Path(ours["cwd"]) / "seen")
            assert theirs_seen, (words, said)
            assert ours_seen.keys() == theirs_seen.keys(), words
            for rank, theirs in theirs_seen.items():
                argv = theirs["argv"]
                if "run" in program and "--no-python" in words:
                    # In the arguments of a command we replace ${local_rank} alone.
                    argv = [argv[0], *ARGUMENTS[1:]]
                assert ours_seen[rank]["argv"] == argv, words
                for name, value in theirs["env"].items():
                    own = ours_seen[rank]["env"].get(name)
                    right = {**EXPLAINED, **explained}.get(name)
                    same = own == value or (own is not None and right and right(value, own))
                    if name not in NOISE and not same:
                        differences.append((words, rank, name, value, own))
            for path in (Path(ours["cwd"]) / "seen").iterdir():
                path.unlink()
    assert not differences
