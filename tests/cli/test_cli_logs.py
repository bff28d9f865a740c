"""The files of a run: where they lie, what is in them, who may read them."""

import json
import os
import re
import shutil
import stat
import tempfile
from pathlib import Path

import pytest
from commandline import Watched, good, only, run

from support import gone, reader_of, until, write

ALL = {"0o", "0e", "1o", "1e", "10o", "10e"}


@pytest.fixture
def logs(tmp_path):
    return tmp_path / "logs"


def files(run_dir):
    return {
        str(p.relative_to(run_dir)) for p in run_dir.rglob("*") if p.is_file() or p.is_symlink()
    }


def test_layout(hello, logs):
    env = {**os.environ, "TORCHELASTIC_RUN_ID": "job-17"}
    words = ("-n", 2, "--log-dir", "logs", "-r", 3, hello, "--epochs", "3")
    done = run(*words, cwd=logs.parent, env=env)
    assert (done.returncode, done.stdout) == (0, "")
    path = only(logs)
    assert done.stderr == f"procession: logs in {path}\n"
    assert path.name.startswith("job-17_")
    asked = json.loads((path / "run.json").read_text())
    assert (asked["nproc"], asked["name"], asked["cwd"]) == (2, "hello.py", str(logs.parent))
    assert "--epochs" in asked["words"]
    assert files(path) == {
        "run.json",
        "events.jsonl",
        "report.txt",
        "result.json",
        *(f"attempt_0/{r}/{s}.log" for r in (0, 1) for s in ("stdout", "stderr")),
    }
    for rank in (0, 1):
        own = path / "attempt_0" / str(rank)
        assert (own / "stdout.log").read_text() == f"hello from {rank}\n"
        assert (own / "stderr.log").read_text() == f"problem of {rank}\n"


def test_permissions(hello, logs):
    good("-n", 2, "--log-dir", logs, "-t", 3, hello, umask=0)
    path = only(logs)
    for found in [path, *path.rglob("*")]:
        wanted = 0o700 if found.is_dir() else 0o600
        assert stat.S_IMODE(found.stat().st_mode) == wanted, found


@pytest.mark.parametrize(
    ("words", "to_file", "to_console"),
    [
        (["-r", "1"], {"0o", "1o", "10o"}, {"0e", "1e", "10e"}),
        (["-t", "3"], ALL, ALL),
        (["-r", "0:1,10:2"], {"0o", "10e"}, {"0e", "1o", "1e", "10o"}),
        (["-t", "1:3,10:1"], {"1o", "1e", "10o"}, ALL),
        (["-r", "3", "-t", "10:1"], ALL, {"10o"}),
        (["-r", "1:0,0:3"], {"0o", "0e"}, {"1o", "1e", "10o", "10e"}),
    ],
    ids=lambda v: " ".join(v) if isinstance(v, list) else "",
)
def test_redirect_and_tee_by_rank(hello, logs, words, to_file, to_console):
    done = run("-n", 11, "--log-dir", logs, *words, hello)
    assert done.returncode == 0
    names = {"stdout.log": "o", "stderr.log": "e"}
    found = {p.parent.name + names[p.name] for p in only(logs).rglob("*.log")}
    on_console = {
        rank + {"hello from": "o", "problem of": "e"}[what]
        for text in (done.stdout, done.stderr)
        for rank, what, same in re.findall(r"^\[(\d+)\] (hello from|problem of) (\d+)$", text, re.M)
        if rank == same
    }
    looked_at = {f"{r}{s}" for r in (0, 1, 10) for s in "oe"}
    assert found & looked_at == to_file
    assert on_console & looked_at == to_console
    for p in only(logs).rglob("*.log"):
        word = "hello from" if p.name == "stdout.log" else "problem of"
        assert p.read_text() == f"{word} {p.parent.name}\n"


def test_redirect_without_log_dir_makes_a_directory_and_says_where(hello):
    done = run("-n", 2, "-r", 3, hello)
    scratch = Path(tempfile.gettempdir())
    assert (done.returncode, done.stdout) == (0, "")
    path = only(scratch)
    assert done.stderr == f"procession: logs in {path}\n"
    assert (path / "attempt_0/1/stdout.log").read_text() == "hello from 1\n"
    shutil.rmtree(path)


@pytest.mark.parametrize("option", ["-r", "-t"])
def test_files_are_whole_when_the_launcher_is_killed(tmp_path, logs, option):
    script = write(
        tmp_path / "talk.py",
        """
        import os, pathlib, signal, sys
        for i in range(5000):
            print("line", i)
        print("the last line", end="")
        file = pathlib.Path(sys.argv[1], "pid" + os.environ["RANK"])
        file.write_text(f"{os.getpid()}\\n")
        while True:
            signal.pause()
        """,
    )
    with Watched("run", "-n", 2, "--log-dir", logs, option, 3, script, tmp_path) as watched:
        pids = [until(reader_of(tmp_path / f"pid{r}"), "a rank", 20)[0] for r in (0, 1)]
        watched.signal(9)
        assert watched.end() == -9
        gone(pids)
    for rank in (0, 1):
        text = (only(logs) / "attempt_0" / str(rank) / "stdout.log").read_text()
        assert text == "".join(f"line {i}\n" for i in range(5000)) + "the last line"


def test_a_directory_alone_keeps_no_output_and_says_so(hello, logs):
    done = run("-n", 2, "--log-dir", logs, hello)
    assert (done.returncode, sorted(done.stdout.splitlines())) == (
        0,
        ["[0] hello from 0", "[1] hello from 1"],
    )
    path = only(logs)
    said = f"procession: no logs (see -t, -r), but events and report, in {path}\n"
    assert done.stderr.startswith(said)
    assert not list(path.rglob("stdout.log"))
