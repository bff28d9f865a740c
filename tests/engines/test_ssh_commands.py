"""The line that ssh is given, as login shells read it, and what is made of ssh's own words."""

import json
import shutil
import subprocess
import sys

import pytest

from seams.jobs import INVITATION
from seams.ssh import (
    ENDED,
    FAULT,
    check_options,
    ssh_command,
    why_ended,
    with_client,
)
from seams.values import SpecError


@pytest.mark.parametrize("shell", ["sh", "bash", "zsh", "tcsh", "fish"])
def test_each_login_shell_understands_the_line(shell):
    """What ssh hands to a login shell is `SHELL -c LINE`; no Python here has a module of ours."""
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell} here")
    line = ssh_command("h1", ["/no where/python", "/bin/false"])[-1]
    done = subprocess.run([shell, "-c", line], capture_output=True, text=True, timeout=20)
    assert done.returncode == 127
    assert done.stdout == (
        f"{FAULT} no Python with procession: /no where/python (which is not there), "
        "/bin/false (which cannot import procession),\n"
    )
    assert done.stderr == ""


def test_the_directory_of_the_login_shadows_nothing(tmp_path):
    (tmp_path / "json.py").write_text("raise SystemExit('shadowed')")
    line = ssh_command("h1", [sys.executable])[-1]
    done = subprocess.run(
        ["sh", "-c", line], cwd=tmp_path, capture_output=True, text=True, timeout=20, input="x\n"
    )
    assert "shadowed" not in done.stdout + done.stderr
    assert done.stdout.startswith(FAULT)  # the node's side was there, and read what is no JSON


def test_a_host_stands_where_it_can_be_no_option():
    words = ssh_command("user@[::1]", ["python3"], ["-p", "2222"])
    assert words[:3] == ["ssh", "-p", "2222"]
    assert words[words.index("--") + 1] == "user@::1"


@pytest.mark.parametrize("word", ["-f", "-N", "-W", "-L8080:x:80", "--", "-n", "-G"])
def test_options_that_would_have_ssh_do_something_else(word):
    with pytest.raises(SpecError, match="cannot be used here"):
        check_options([word])


@pytest.mark.parametrize(
    ("code", "lines", "said"),
    [
        (
            255,
            ["ssh: Could not resolve hostname h9: Name or service not known"],
            "host h9: its name cannot be resolved (Could not resolve hostname h9: "
            "Name or service not known) [P210]",
        ),
        (
            255,
            ["me@h9: Permission denied (publickey)."],
            "host h9: it refuses the log-in; `ssh h9` must work without a question (a key, an "
            "agent) (me@h9: Permission denied (publickey).) [P210]",
        ),
        (
            255,
            ["No ED25519 host key is known for h9", "Host key verification failed."],
            "host h9: its host key is not known, or has changed; run `ssh h9` once by hand "
            "(Host key verification failed.) [P210]",
        ),
        (
            0,
            [f"{ENDED} the node process on h9 was killed by SIGKILL"],
            "the node process on h9 was killed by SIGKILL",
        ),
        (
            127,
            [f"{FAULT} no Python with procession: python3 (which is not there),"],
            "no Python with procession: python3 (which is not there) on h9: install procession "
            "there, or name the right Python with --remote-python [P211]",
        ),
        (-9, [], "the connection to h9 was killed by signal 9 [P210]"),
        (255, ["odd"], "the connection to h9 ended with code 255: odd [P210]"),
    ],
)
def test_why_a_connection_ended(code, lines, said):
    assert why_ended("h9", code, lines) == said


def test_why_a_log_in_that_starts_no_node_process_ended():
    said = why_ended("h9", 0, ["Welcome"], started=False)
    assert said.startswith("host h9: its log-in ended without starting a node process; see what")
    assert said.endswith("(Welcome) [P210]")
    assert "reads standard input" in said


@pytest.mark.parametrize("line", [b'ad", "argv"], "env": {}}\n', b'{"a": 1}, 5]\n', b"[1]\n"])
def test_a_profile_that_reads_standard_input_is_named_with_its_host(line):
    code = "import procession.engines.ssh.node as node; node.main()"
    done = subprocess.run([sys.executable, "-c", code], input=line, capture_output=True, timeout=20)
    lines = done.stdout.decode().splitlines()
    said = why_ended("h9", done.returncode, lines, started=False)
    assert said.startswith("host h9: what the driver says did not arrive whole: a profile there")


def test_the_look_for_a_python_leaves_standard_input_to_the_node_process(tmp_path):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\ncat\n")
    python.chmod(0o755)
    line = ssh_command("h1", [str(python)])[-1]
    done = subprocess.run(["sh", "-c", line], input=b"all\n", capture_output=True, timeout=20)
    assert done.stdout == b"all\n"


def test_the_driver_may_be_found_where_its_connection_comes_from():
    env = {INVITATION: json.dumps({"at": [["10.0.0.1", 99]], "lease": 5})}

    def at(connection):
        return json.loads(with_client(env, connection)[INVITATION])["at"]

    assert at("192.0.2.7 5000 192.0.2.9 22") == [["192.0.2.7", 99], ["10.0.0.1", 99]]
    assert at("10.0.0.1 5000 10.0.0.2 22") == [["10.0.0.1", 99]]
    assert at("127.0.0.1 5000 127.0.0.1 22") == [["10.0.0.1", 99]]
    assert at("") == [["10.0.0.1", 99]]
