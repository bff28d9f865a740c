"""Options of the command where launchers on several machines are one job."""

import contextlib
import json
import os

import pytest
from commandline import Watched, command, only

from conftest import until
from seams.system import free_port
from support import write

KEY = {"PROCESSION_JOB_KEY": "0123456789abcdef-of-this-test"}
PATIENCE = 100  # seconds: several interpreters start on a busy machine
pytestmark = pytest.mark.timeout(300)


def launchers(*words, env=KEY):
    """Start two launchers on this machine; gives the host and the other."""
    line = ["run", "--lease", "40", "--nnodes", 2, "--rdzv-id", "J", "--rdzv-backend", "c10d",
            "--rdzv-endpoint", f"127.0.0.1:{free_port()}", *words]  # fmt: skip
    both = {**os.environ, **env}
    return [Watched(*line, "--local-addr", f"127.0.0.{n}", env=both) for n in (1, 2)]


def test_the_result_is_of_the_whole_job_and_the_status_too(tmp_path):
    """`--json` prints the same on all machines; `--status` is that of the host."""
    script = write(tmp_path / "fail.py", """
        import os, sys, time
        print("here", flush=True)
        while not os.path.exists(sys.argv[1]):
            time.sleep(0.01)
        if os.environ["RANK"] == "3":
            raise ValueError("no such batch")
        time.sleep(100)
    """)  # fmt: skip
    go = tmp_path / "go"
    words = ["-n", 2, "--json", "--status", 0.2, script, go]
    first, second = launchers(*words)
    with first, second:
        # Either may be the host: it was there first.
        until(lambda: b" 4 RUNNING" in first.err + second.err, "the status", PATIENCE)
        go.touch()
        assert (first.end(PATIENCE), second.end(PATIENCE)) == (1, 1)
    result = json.loads(first.out)
    assert json.loads(second.out) == result
    assert (result["state"], result["exit_code"], result["nodes"]) == ("FAILED", 1, 2)
    assert (result["cause"]["rank"], result["cause"]["local_rank"]) == (3, 1)
    assert result["cause"]["message"] == "no such batch"
    assert [rank["rank"] for rank in result["ranks"]] == [0, 1, 2, 3]


SAYS = """
import os, sys
print("rank", os.environ["RANK"], "is", os.environ["LOCAL_RANK"], "in attempt",
      os.environ["TORCHELASTIC_RESTART_COUNT"], flush=True)
if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    while len(os.listdir(sys.argv[1])) < 6:
        open(f"{sys.argv[1]}/{os.environ['RANK']}", "w").close()
    raise SystemExit(9)
"""


def test_logs_and_results_have_the_numbers_of_machines_with_different_numbers_of_ranks(tmp_path):
    counts, runs, there = (1, 3, 2), tmp_path / "runs", tmp_path / "there"
    there.mkdir()
    script, port = write(tmp_path / "says.py", SAYS), free_port()
    line = ["run", "--lease", 40, "--nnodes", 3, "--rdzv-id", "J", "--rdzv-backend", "c10d",
            "--rdzv-endpoint", f"127.0.0.1:{port}", "--max-restarts", 1, "--json", "-r", 3,
            "--log-dir", runs]  # fmt: skip
    env = {**os.environ, **KEY}
    with contextlib.ExitStack() as open_:
        launched = [
            open_.enter_context(
                Watched(*line, "-n", count, "--local-addr", f"127.0.0.{n}", script, there, env=env)
            )
            for n, count in enumerate(counts, 1)
        ]
        assert [each.end(PATIENCE) for each in launched] == [0, 0, 0]
    locals_ = [local for count in counts for local in range(count)]
    for each in launched:
        ranks = json.loads(each.out)["ranks"]
        assert [(r["rank"], r["local_rank"]) for r in ranks] == [*enumerate(locals_)]
    directory = only(runs)
    for rank, local in enumerate(locals_):
        shown = command("logs", directory, "--rank", rank).stdout
        assert shown == f"rank {rank} is {local} in attempt 1\n"
    assert "[1:2] rank 2 is 1 in attempt 1\n" in command("logs", directory).stdout


PLUGIN = """
import os
from procession.elastic import DefaultLogsSpecs

class Mine(DefaultLogsSpecs):
    def __init__(self, *, log_dir, **given):
        super().__init__(log_dir=os.path.join(log_dir, str(os.getpid())), **given)

    def reify(self, envs):
        for rank, env in envs.items():
            env["PLANNED"] = f"{env['RANK']} of {env['WORLD_SIZE']}"
        return super().reify(envs)
"""


def test_an_entry_point_lays_out_the_logs_of_each_machine(tmp_path, monkeypatch):
    site = tmp_path / "site"
    write(site / "logs_plugin.py", PLUGIN)
    write(site / "plugin-1.0.dist-info" / "METADATA", "Metadata-Version: 2.1\nName: plugin\n")
    write(site / "plugin-1.0.dist-info" / "entry_points.txt",
          "[torchrun.logs_specs]\nmine = logs_plugin:Mine\n")  # fmt: skip
    monkeypatch.setenv("PYTHONPATH", str(site))
    script = write(tmp_path / "see.py", """
        import os
        print(os.environ["PLANNED"], flush=True)
        1 / int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    """)  # fmt: skip
    logs = tmp_path / "logs"
    words = ["--max-restarts", 1, "--logs-specs", "mine", "--log-dir", logs, "-r", 3, script]
    first, second = launchers(*words)
    with first, second:
        assert (first.end(PATIENCE), second.end(PATIENCE)) == (0, 0), (first.err, second.err)
        pids = [first.process.pid, second.process.pid]
    assert sorted(path.name for path in logs.iterdir()) == sorted(map(str, pids))
    for rank, pid in enumerate(pids):
        run_dir = only(logs / str(pid))
        assert run_dir.name.startswith("J_")
        assert sorted(path.name for path in run_dir.iterdir()) == ["attempt_0", "attempt_1"]
        log = run_dir / "attempt_1" / "0" / "stdout.log"
        assert log.read_text() == f"{rank} of 2\n"
