"""`procession run` with ranks that hang: options, exit code, report and files."""

import pytest
from commandline import only, run

from support import write

HANGS = """
    import os, threading, procession
    def load_batch():
        threading.Event().wait()
    procession.beat(512, 10000)
    if os.environ["RANK"] == "1":
        load_batch()
    while True:
        procession.beat(513)
    """


@pytest.fixture
def script(tmp_path):
    return write(tmp_path / "data.py", HANGS)


def test_hang(script, tmp_path):
    done = run("-n", 2, "--hang-timeout", 0.5, "--log-dir", tmp_path / "runs", script)
    assert done.returncode == 124, done.stderr
    report = done.stderr[done.stderr.index("data.py failed: ") :]
    assert "rank 1 of 2 " in report.splitlines()[0]
    assert "(the last one at step 512 of 10000); it waits in wait (data.py:3)" in report
    path = only(tmp_path / "runs") / "attempt_0" / "stacks.txt"
    assert f"all stacks: {path}" in report
    assert "in load_batch" in path.read_text()


@pytest.mark.parametrize(("ranks", "said"), [(1, "rank 0 is"), (2, "2 ranks [0-1] are")])
def test_silence(tmp_path, ranks, said):
    quiet = write(tmp_path / "quiet.py", "print(1, flush=True)\nimport time\ntime.sleep(1000)\n")
    done = run("-n", ranks, "--silence-timeout", 1, quiet)
    assert done.returncode == 124, done.stderr
    assert "hung: no rank has written anything for 1" in done.stderr
    assert f"{said} at quiet.py:3" in done.stderr


def test_no_stacks(script):
    done = run("-n", 2, "--hang-timeout", 0.5, "--no-stacks", script)
    assert done.returncode == 124
    assert "the ranks were" not in done.stderr
    assert "it waits in" not in done.stderr
