"""Nothing that a rank, a file's name or another process says is obeyed by a terminal."""

import re

import pytest
from commandline import Watched, command, run

from support import write

EVIL = "\x1b]0;title\x07\x9b2J\u202egpj\u2066\r"
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
BEATS = f"""
    import os, procession, time
    procession.beat(step=1, note={EVIL + chr(10) + "  rank 7: fine"!r}, **{{{EVIL!r}: 5}})
    print("ready", flush=True)
    time.sleep(3600)
"""


def obeyed(text):
    # Carriage returns and colours of our own do not come without a terminal.
    return OBEYED.findall(text)


def test_what_other_commands_show_of_a_run(tmp_path):
    script = write(tmp_path / f"{EVIL}\nforged.py", BEATS)
    with Watched("run", "-n", 1, "--status", "0.1", script, EVIL) as launcher:
        launcher.shows(b"ready", b"procession: ")
        for words in (("ps",), ("report", "last"), ("stacks", "last")):
            done = command(*words)
            assert done.returncode == 0, done
            assert obeyed(done.stdout + done.stderr) == [], words
            if words[0] == "report":
                assert "<U+202E>" in done.stdout
                assert "\n  rank 7: fine" not in done.stdout
            if words[0] == "ps":
                assert not any(line.startswith("forged") for line in done.stdout.splitlines())
        assert command("stop", "last").returncode == 0
        launcher.end()
        assert obeyed((launcher.out + launcher.err).decode(errors="surrogateescape")) == []


def test_what_would_be_run(tmp_path):
    script = write(tmp_path / f"{EVIL}\nforged.py", BEATS)
    done = run("--dry-run", "-n", 1, "-x", f"NAME={EVIL}", script, EVIL)
    assert done.returncode == 0
    assert obeyed(done.stdout + done.stderr) == []
    assert not any(line.startswith("forged") for line in done.stdout.splitlines())


@pytest.mark.parametrize(
    "words",
    [
        ("run", f"/nowhere/{EVIL}"),
        ("report", EVIL),
        (EVIL,),
    ],
)
def test_what_is_wrong_with_a_command_line(words):
    done = command(*words)
    assert done.returncode != 0
    assert obeyed(done.stdout + done.stderr) == []
    assert done.stderr


def test_the_report_of_a_failure(tmp_path):
    script = write(tmp_path / "fails.py", f"raise ValueError({EVIL!r})")
    done = run("-n", 2, "--prefix", f"{EVIL}{{rank}} ", "--log-dir", tmp_path / EVIL, script)
    assert done.returncode == 1
    assert obeyed(done.stdout + done.stderr) == []
    assert "<U+202E>" in done.stderr
