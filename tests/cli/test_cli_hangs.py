"""`procession run` with ranks that hang: options, exit code, report and files."""

import json

import pytest
from commandline import only, run
from test_cli_full_disk import on_small_disk, procession

from support import run_python, write

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


def test_hang_as_json(script):
    done = run("-n", 2, "--hang-timeout", 0.5, "--json", script)
    said = json.loads(done.stdout)
    assert said["exit_code"] == done.returncode == 124
    assert said["cause"]["outcome"] == "HUNG"
    assert said["cause"]["message"].startswith("no beat for 0.")
    assert said["stacks"][0].startswith("rank 0 is ")
    assert said["stacks_file"] == ""


def test_silence(tmp_path):
    quiet = write(tmp_path / "quiet.py", "print(1, flush=True)\nimport time\ntime.sleep(1000)\n")
    done = run("-n", 2, "--silence-timeout", 1, quiet)
    assert done.returncode == 124, done.stderr
    assert "hung: no rank has written anything for 1" in done.stderr
    assert "2 ranks [0-1] are at quiet.py:3" in done.stderr


def test_no_stacks(script):
    done = run("-n", 2, "--hang-timeout", 0.5, "--no-stacks", script)
    assert done.returncode == 124
    assert "the ranks were" not in done.stderr
    assert "it waits in" not in done.stderr


def test_options_from_elsewhere(script, tmp_path):
    (tmp_path / "pyproject.toml").write_text(
        "[tool.procession]\nhang-timeout = 0.5\nno-stacks = true\n"
    )
    done = run("-n", 2, script, cwd=tmp_path)
    assert done.returncode == 124
    assert "the ranks were" not in done.stderr


@pytest.mark.parametrize("option", ["--hang-timeout", "--silence-timeout", "--start-timeout"])
@pytest.mark.parametrize("text", ["soon", "0", "-1", "nan", "inf", ""])
def test_what_is_no_time(option, text, script):
    done = run("-n", 2, option, text, script)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(
        f"procession run: error: {option} must be seconds, more than 0, not {text!r}"
    )


def test_silence_that_nobody_could_hear(script):
    done = run("-n", 1, "--silence-timeout", 1, script)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "error: --silence-timeout notices nothing here: output that goes straight" in line
    assert "Logs(" not in line


def test_torchrun_has_none_of_them(script):
    code = "import sys; from procession.cli.torchrun import command; sys.exit(command())"
    done = run_python("-c", code, "--hang-timeout", "1", script)
    assert done.returncode == 2
    assert "torchrun has no option --hang-timeout" in done.stderr


def test_a_full_disk(tmp_path):
    """The report is whole, and says why there is no file."""
    script = write(
        tmp_path / "fill.py",
        """
        import os, threading, time
        if os.environ["RANK"] == "0":
            for _ in range(40):
                threading.Thread(target=time.sleep, args=(99,), daemon=True).start()
            time.sleep(99)
        try:
            while True:
                os.write(1, b"." * 4096)
        except OSError as e:
            time.sleep(0.5)
            raise
        """,
    )
    disk = tmp_path / "disk"
    done = on_small_disk("400k", disk, *procession("-n", 2, "--log-dir", disk, "-r", 3, script))
    assert done.returncode == 1, done.stderr
    assert "when it failed, the others were:" in done.stderr
    assert "  rank 0 is at fill.py:5" in done.stderr
    assert "all stacks" not in done.stderr
    assert "note: cannot write to the run's directory" in done.stderr
    assert "No space left on device" in done.stderr
