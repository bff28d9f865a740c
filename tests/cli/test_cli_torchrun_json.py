"""`--json`: the result as one JSON object on the standard output, and nothing else there."""

import json
import resource
import signal
from functools import partial

import pytest
from commandline import Watched, run

from support import write


def told(done):
    return json.loads(done.stdout)


def test_success(tmp_path):
    done = run("--json", "-n", 2, "--log-dir", tmp_path / "logs", "sh", "-c", "echo hello $RANK")
    result = told(done)
    assert done.returncode == result["exit_code"] == 0
    assert "[0] hello 0\n" in done.stderr
    assert "[1] hello 1\n" in done.stderr
    assert (result["name"], result["state"], result["nproc"]) == ("sh", "SUCCEEDED", 2)
    assert result["run_dir"].startswith(str(tmp_path / "logs"))
    assert (result["cause"], result["failures"], result["attempt"]) == (None, [], 0)
    assert [end["rank"] for end in result["ranks"]] == [0, 1]
    for end in result["ranks"]:
        assert (end["outcome"], end["exit_code"], end["signal"]) == ("EXITED", 0, None)
        assert 0 <= end["started_after"] <= result["seconds"]
        assert 0 < end["seconds"] <= result["seconds"]


def test_failure(tmp_path):
    source = """
        import os, time
        if os.environ["LOCAL_RANK"] == "1":
            raise ValueError("no such batch")
        time.sleep(60)
    """
    script = write(tmp_path / "fail.py", source)
    done = run(
        "--json",
        "-n",
        2,
        "--max-restarts",
        1,
        "--nnodes",
        2,
        "--node-rank",
        1,
        "--master-addr",
        "127.0.0.1",
        "--engine",
        "none",
        script,
    )
    result = told(done)
    assert done.returncode == result["exit_code"] == 1
    assert "fail.py failed on node 1 of 2" in done.stderr
    assert (result["state"], result["attempt"]) == ("FAILED", 1)
    assert (result["node"], result["nodes"], result["failures"]) == (1, 2, [3])
    cause = result["cause"]
    assert (cause["rank"], cause["local_rank"], cause["type"]) == (3, 1, "ValueError")
    assert cause["message"] == "no such batch"
    assert cause["traceback"].startswith("Traceback")
    assert [(end["rank"], end["signal"]) for end in result["ranks"]] == [(2, "SIGTERM"), (3, None)]


def test_a_stop():
    with Watched("run", "--json", "sh", "-c", "echo here; sleep 60") as watched:
        watched.shows(b"here")
        watched.signal(signal.SIGTERM)
        assert watched.end() == 143
    result = json.loads(watched.out)
    assert (result["state"], result["exit_code"]) == ("STOPPED", 143)
    assert result["ranks"][0]["signal"] == "SIGTERM"


@pytest.mark.parametrize("most", [6, 8, 11])
def test_a_group_that_cannot_be_started(most):
    # The fewer there are, the earlier it fails.
    limit = partial(resource.setrlimit, resource.RLIMIT_NOFILE, (most, most))
    done = run("--json", "true", preexec_fn=limit)
    result = told(done)
    assert done.returncode == result["exit_code"] == 1
    assert result["state"] == "FAILED"
    assert all(end["outcome"] == "NOT_STARTED" for end in result["ranks"])
    assert "the limit of open files is reached" in done.stderr
