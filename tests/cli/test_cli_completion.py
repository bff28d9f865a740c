"""Completion in shells: what bash and zsh offer, and that tcsh can read its script."""

import os
import pty
import select
import shutil
import signal
import subprocess
import sys

import pytest
from commandline import command

from seams.cli import parsers
from support import write
from write_share import SHARE

TORCHRUN = "procession-torchrun"


def script(shell):
    done = command("completion", shell)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.fixture(scope="module")
def bash():
    return script("bash")


@pytest.fixture
def offered(bash, tmp_path):
    """Give a function: what bash offers for the last of these words."""
    (tmp_path / "bash").write_text(bash)
    write(tmp_path / "here" / "train.py", "")
    (tmp_path / "here" / "logs").mkdir()

    def ask(*words):
        words = words if words[:1] == (TORCHRUN,) else ("procession", *words)
        quoted = " ".join(f"'{word}'" for word in words)
        code = (
            f"source {tmp_path / 'bash'}; COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; "
            '_procession; printf "%s\\n" "${COMPREPLY[@]}"'
        )
        done = subprocess.run(
            ["bash", "--norc", "-c", code],
            cwd=tmp_path / "here", capture_output=True, text=True, timeout=20, check=True,
        )  # fmt: skip
        assert done.stderr == ""
        return done.stdout.split()

    return ask


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("do", "doctor"),
        ("run --nproc", "--nproc-per-node"),
        ("run -n 2 --log", "--log-dir --log-line-prefix-template --logs-specs"),
        ("doctor --", "--help --json"),
        ("doctor --nproc", ""),
        ("run --rdzv-backend ", "static c10d"),
        ("run -t ", "0 1 2 3"),
        ("run --devices = cu", "cuda"),
        ("run --rdzv-backend =", "static c10d"),
        ("run --log-dir ", "logs"),
        ("run --config tr", "train.py"),
        ("run --role ", ""),
        ("completion ", "bash zsh tcsh"),
        # The program and its arguments.
        ("run -n 2 train.py --lo", ""),
        ("run --log-dir = logs x tr", "train.py"),
        ("run -- x lo", "logs"),
    ],
)
def test_what_bash_offers(offered, words, expected):
    assert offered(*words.split(" ")) == expected.split()


def test_every_option_is_offered(offered):
    known = {name for option in parsers()["run"].options.values() for name in option.names}
    assert set(offered("run", "-")) == known
    assert "train.py" in offered("run", "-n", "2", "tr")
    assert {"run", "doctor", "completion", "--version"} <= set(offered(""))


def test_torchruns_way_to_ask():
    torchrun = os.path.join(os.path.dirname(sys.executable), TORCHRUN)
    said = subprocess.check_output([torchrun, "--print_completion", "zsh"], text=True, timeout=40)
    assert said == script("zsh")


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
def test_the_shell_can_read_it(shell, tmp_path):
    text = script(shell)
    for word in ("nproc-per-node", "rdzv-backend", "doctor", "completion", "virtual-local-rank"):
        assert word in text
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell} here to read its script")
    (tmp_path / "script").write_text(text)
    subprocess.run([shell, "-n", tmp_path / "script"], timeout=20, check=True)


EVALUATED = 'autoload -U compinit && compinit -u -D; eval "$(procession completion zsh)"'
INSTALLED = "fpath=({}/zsh/site-functions $fpath); autoload -U compinit && compinit -u -D"


@pytest.mark.parametrize("setup", [EVALUATED, INSTALLED.format(SHARE)], ids=["evaluated", "file"])
def test_zsh_completes(setup, tmp_path, monkeypatch):
    if shutil.which("zsh") is None:
        pytest.skip("there is no zsh here (Debian package zsh)")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("PATH", f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}")
    pid, terminal = pty.fork()
    if pid == 0:
        os.execlp("zsh", "zsh", "-f", "-i")
    try:
        for typed, shown in (
            (f"{setup}; print re''ady\n", b"ready"),
            ("procession doct\t", b"procession doctor"),
            ("\x15procession-torchrun --nproc-per\t", b"procession-torchrun --nproc-per-node"),
        ):
            os.write(terminal, typed.encode())
            heard = b""
            while shown not in heard:
                assert select.select([terminal], [], [], 40)[0], heard
                heard += os.read(terminal, 1 << 16)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(terminal)
