"""What `ps`, `top` and `pgrep` show of ranks."""

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


def told(directory, name="train.py", nproc=2, **options):
    """Run a script; gives what each rank saw of itself."""
    script = write(directory / name, TELL)
    program = procession.Script(str(script))
    procession.run(program, nproc=nproc, args=("--lr", "1"), cwd=directory, **options)
    return [eval((directory / f"told-{rank}").read_text()) for rank in range(nproc)]


@pytest.mark.parametrize("options", [{}, {"preload": ["colorsys"]}, {"start_method": "spawn"}])
def test_a_script(tmp_path, options):
    for rank, (line, short, marked, argv, started) in enumerate(told(tmp_path, **options)):
        words = [word.rstrip() for word in line.split("\0")]
        if options.get("start_method") == "spawn":
            words = words[-2:]
        else:
            assert words[0] == sys.executable
            assert marked
        assert f"train.py [rank {rank}/2]" in words
        assert not any(words[2:])
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
