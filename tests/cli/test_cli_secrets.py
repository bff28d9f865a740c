"""Secrets on a command line stand in no file of its run, and in nothing that commands show."""

import json
import sys

import pytest
from commandline import Watched, command, only, run

from support import write

SECRET = "hush1"
WORDS = [
    "--api-key", SECRET, "--pwd", SECRET,
    f"--auth=Bearer {SECRET}", f"api_key={SECRET}", f"AWS_SECRET_ACCESS_KEY={SECRET}",
    f"--url=https://me:{SECRET}@host/a", f"ftp://me:{SECRET}@host",
    "-H", f"Authorization: Bearer {SECRET}", f'{{"token": "{SECRET}"}}',
]  # fmt: skip
GIVEN = ["-x", f"MY_TOKEN={SECRET}", "-x", f"STORE=redis://:{SECRET}@host", "-x", "PLAIN=seen"]


@pytest.fixture(params=["script", "command"])
def program(request, tmp_path):
    source = """
        import os, sys, time
        assert sum("hush1" in word for word in sys.argv) == 9
        assert os.environ["MY_TOKEN"] == "hush1"
        print("ready", flush=True)
        time.sleep(3600 * (sys.argv[1] == "stay"))
        sys.exit(3)
    """
    script = str(write(tmp_path / "program.py", source))
    return [script] if request.param == "script" else ["env", sys.executable, script]


def test_in_files_and_reports(program, tmp_path):
    logs = tmp_path / "logs"
    done = run("-n", 2, "--log-dir", logs, *GIVEN, *program, "fail", *WORDS)
    assert done.returncode == 3, done.stderr
    assert SECRET not in done.stdout + done.stderr
    directory = only(logs)
    files = [f for f in directory.rglob("*") if f.is_file()]
    assert {f.name for f in files} >= {"run.json", "events.jsonl", "report.txt", "result.json"}
    assert [f for f in files if SECRET in f.read_text()] == []
    asked = json.loads((directory / "run.json").read_text())
    given = {"MY_TOKEN": "***", "STORE": "redis://:***@host", "PLAIN": "seen"}
    assert asked["env"][0] == {**asked["env"][0], **given}
    for words in (("report", directory), ("ps", "--all", "--json")):
        done = command(*words)
        assert done.returncode == 0, done
        assert SECRET not in done.stdout + done.stderr


def test_what_would_be_run(program):
    done = run("--dry-run", "-n", 2, *GIVEN, *program, "fail", *WORDS)
    assert done.returncode == 0
    assert SECRET not in done.stdout + done.stderr
    assert "PLAIN=seen" in done.stdout
    assert "https://me:***@host/a" in done.stdout


def test_while_it_runs(program):
    with Watched("run", "-n", 1, "--status", "0.2", *GIVEN, *program, "stay", *WORDS) as launcher:
        launcher.shows(b"ready", b"procession: ")
        for words in (("ps",), ("ps", "--json"), ("report", "last"), ("stacks", "last", "--json")):
            done = command(*words)
            assert done.returncode == 0, done
            assert SECRET not in done.stdout + done.stderr, words
        assert command("stop", "last").returncode == 0
        launcher.end()
        assert SECRET.encode() not in launcher.out + launcher.err
