"""What `ps`, `top` and `pgrep` show of ranks."""

import os
import sys

import pytest

import procession
from support import write

TELL = """
    import os, sys
    with open("/proc/self/cmdline") as f:
        line = f.read()
    with open("/proc/self/comm") as f:
        short = f.read().strip()
    with open("/proc/self/environ") as f:
        marked = "PROCESSION_LAUNCHER=" in f.read()
    rank = os.environ["RANK"]
    with open(f"told-{rank}", "w") as f:
        f.write(repr((line, short, marked, sys.argv, sys.orig_argv[-3:])))
"""
AHEAD = pytest.mark.parametrize("preload", [None, ["colorsys"]], ids=["nothing", "preloaded"])


def told(directory, name="train.py", nproc=2, **options):
    """Run a script; gives what each rank saw of itself."""
    script = write(directory / name, TELL)
    program = procession.Script(str(script))
    procession.run(program, nproc=nproc, args=("--lr", "1"), cwd=directory, **options)
    return [eval((directory / f"told-{rank}").read_text()) for rank in range(nproc)]


@AHEAD
def test_a_forked_rank(tmp_path, preload):
    for rank, (line, short, marked, argv, started) in enumerate(told(tmp_path, preload=preload)):
        words = [word.rstrip() for word in line.split("\0")]
        assert words[:2] == [sys.executable, f"train.py [rank {rank}/2]"]
        assert not any(words[2:])
        assert short == f"train.py:{rank}"
        assert marked
        script = str(tmp_path / "train.py")
        assert (argv, started) == ([script, "--lr", "1"], [script, "--lr", "1"])


def test_a_rank_with_an_interpreter_of_its_own(tmp_path):
    for rank, (line, short, _, argv, started) in enumerate(told(tmp_path, start_method="spawn")):
        assert line.split("\0")[-2] == f"train.py [rank {rank}/2]"
        assert short == f"train.py:{rank}"
        script = str(tmp_path / "train.py")
        assert (argv, started) == ([script, "--lr", "1"], [script, "--lr", "1"])


def test_functions_and_modules(tmp_path):
    write(tmp_path / "tells.py", TELL)
    procession.run(procession.Module("tells"), cwd=tmp_path, nproc=1)
    assert "\0tells [rank 0/1]" in (tmp_path / "told-0").read_text().replace("\\x00", "\0")

    def shown():
        with open("/proc/self/cmdline") as f:
            return f.read()

    assert "\0shown [rank 1/2]" in procession.run(shown, nproc=2)[1]


@AHEAD
def test_a_program_can_have_a_title_of_its_own(tmp_path, preload):
    pytest.importorskip("setproctitle")
    source = """
        import setproctitle
        assert setproctitle.getproctitle().rstrip().endswith("own.py [rank 0/1]")
        for title in ("mine", "a longer title that is mine " * 3, "mine"):
            setproctitle.setproctitle(title)
            with open("/proc/self/cmdline") as f:
                assert f.read().rstrip("\\0") == title
    """
    script = write(tmp_path / "own.py", source)
    env = {0: {"FIRST": "1", "PATH": os.environ["PATH"] + ":/own"}}
    options = {"preload": preload, "env": env}
    assert procession.run(procession.Script(str(script)), **options) == [None]
