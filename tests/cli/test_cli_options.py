"""The table of options: what a row is enough for, and what rows must agree with."""

import os
import signal
import subprocess

import pytest
from commandline import command, good, only, run

import write_options
from procession.devices import AUTO, KINDS
from seams.cli import (
    Option,
    completion,
    make_parser,
    make_request,
    options,
    read_line,
    readers,
)
from seams.jobs import NAMES
from seams.values import Hang, Logs, Placement, Restart, SpecError, Stop
from seams.wire import CHOICES
from support import uncoded, write

POLICIES = {"logs": Logs, "stop": Stop, "restart": Restart, "hang": Hang, "placement": Placement}


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in [n for n in os.environ if n.startswith(("PROCESSION_", "PET_", "SLURM_"))]:
        monkeypatch.delenv(name)
    return tmp_path


def asked(*words):
    return make_request(read_line([*words, "true"])).spec


@pytest.fixture
def with_row(here, monkeypatch):
    """Add an option to the table: one row, for a field that a policy has."""
    row = Option(
        ("--linger",), "SECONDS", "how long other ranks go on after a failure",
        read=readers.SECONDS, target="stop.linger",
    )  # fmt: skip
    monkeypatch.setitem(options.TABLE, "life", (*options.LIFE, row))
    return here


def test_a_row_is_read_from_every_place(with_row, monkeypatch):
    assert asked("--linger", "2.5").stop == Stop(linger=2.5)
    write(with_row / "pyproject.toml", "[tool.procession]\nlinger = 4")
    assert asked().stop == Stop(linger=4.0)
    monkeypatch.setenv("PROCESSION_LINGER", "3")
    assert asked().stop == Stop(linger=3.0)
    assert asked("--linger=1", "--shutdown-timeout=9").stop == Stop(linger=1.0, grace=9.0)


def test_a_row_is_refused_and_shown_everywhere(with_row, monkeypatch):
    with pytest.raises(SpecError, match="--linger must be seconds, 0 or more, not 'x'"):
        asked("--linger", "x")
    monkeypatch.setenv("PROCESSION_LINGER", "-1")
    with pytest.raises(SpecError, match="PROCESSION_LINGER must be seconds, 0 or more"):
        asked()
    assert "--linger SECONDS" in make_parser().help_text()
    assert "linger" in completion.parsers()["run"].options
    assert "| `--linger` `SECONDS` | how long other ranks go on" in write_options.text()


def test_the_stop_signal_and_patience_are_options(here, monkeypatch):
    wanted = Stop(signal=signal.SIGUSR1, patience=2.0)
    assert asked("--patience", "2", "--stop-signal", "SIGUSR1").stop == wanted
    monkeypatch.setenv("PROCESSION_STOP_SIGNAL", "USR1")
    assert asked("--patience", "2").stop == wanted
    line = read_line(["--engine", "ssh", "--hosts", "a,b", "--patience", "2", "true"])
    with pytest.raises(SpecError, match="--patience is for the ranks of one machine"):
        make_request(line)


def test_targets_are_fields():
    for option in options.OPTIONS.values():
        of, _, field = option.target.partition(".")
        if of in POLICIES and field != "*":
            assert field in POLICIES[of].__match_args__, option.written


def test_words_are_those_that_are_understood():
    assert set(options.OPTIONS["devices"].words) == {AUTO, *KINDS}
    assert set(options.OPTIONS["engine"].words) == {*NAMES, "none"}
    assert options.OPTIONS["link_encryption"].words == CHOICES


def test_the_page_about_options_is_up_to_date():
    assert write_options.FILE.read_text(encoding="utf-8") == write_options.text()


def test_needs_name_options():
    needed = {option.needs for option in options.OPTIONS.values() if option.needs}
    assert needed <= set(options.OPTIONS)


STEP = {
    "SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2",
    "SLURM_STEP_NODELIST": "n[1-2]", "SLURM_STEP_TASKS_PER_NODE": "1(x2)", "SLURM_LOCALID": "0",
    "SLURM_NODEID": "1", "SLURM_JOB_NODELIST": "n[1-2]",
}  # fmt: skip


@pytest.mark.parametrize(
    ("words", "env"),
    [
        (["-n", "2"], {}),
        (["--detach"], {"PROCESSION_TOLD": "9 x"}),
        (["--engine", "slurm", "--nnodes", "2"], {}),
        (["--engine", "slurm"], STEP),
        (["--engine", "ssh", "--hosts", "a,b"], {}),
    ],
)
def test_reading_starts_and_changes_nothing(here, monkeypatch, words, env):
    def forbidden(*_, **__):
        raise AssertionError("reading a command line must not do this")

    for module, names in (
        (os, ("execv", "execve", "execvpe", "fork", "_exit")),
        (subprocess, ("Popen", "run")),
        (signal, ("signal", "set_wakeup_fd")),
    ):
        for name in names:
            monkeypatch.setattr(module, name, forbidden)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    before = dict(os.environ)
    make_request(read_line([*words, "true"]))
    assert dict(os.environ) == before


def test_settings_that_need_another_option_are_left_out_with_a_note(here, monkeypatch):
    monkeypatch.setenv("PROCESSION_RESTART_BACKOFF", "5")
    done = run("true")
    assert done.returncode == 0
    without = "does nothing without --max-restarts"
    assert f"PROCESSION_RESTART_BACKOFF is left out: it {without}" in done.stderr
    assert "left out" not in run("--max-restarts", "1", "true").stderr
    done = run("--restart-backoff", "5", "true")
    assert (done.returncode, f"{without}, which is 0" in done.stderr) == (2, True)


def test_a_dry_run_says_where_options_come_from(here, monkeypatch):
    write(here / "pyproject.toml", "[tool.procession]\nstatus = 9\nlease = 5")
    monkeypatch.setenv("PROCESSION_TEE", "3")
    monkeypatch.setenv("PROCESSION_LOG_DIR", "https://me:hush1@there")
    done = run("--dry-run", "--nice", "1", "true")
    (line,) = [each for each in done.stdout.splitlines() if each.startswith("options set")]
    for part in ("--tee 3 (PROCESSION_TEE)", "--status 9 (status in pyproject.toml)"):
        assert part in line
    assert "--nice" not in line
    assert "hush1" not in line
    assert "lease in pyproject.toml is left out: it needs --engine" in done.stderr


def test_an_empty_variable_puts_an_option_back_to_its_default(here, monkeypatch):
    write(here / "pyproject.toml", "[tool.procession]\nmax-restarts = 3\nnice = 4")
    monkeypatch.setenv("PROCESSION_MAX_RESTARTS", "")
    monkeypatch.setenv("PROCESSION_NICE", "")
    spec = asked()
    assert (spec.restart.max, spec.placement.nice) == (0, 0)


def test_a_name_for_the_run(here):
    good("--name", "night", "--log-dir", "logs", "true")
    assert only(here / "logs").name.startswith("night_")
    done = command("run", "--name", "night", "false")
    assert "night failed" in done.stderr
    assert run("--name", "a\nb", "true").returncode == 2


@pytest.mark.parametrize("where", ["variable", "file"])
def test_a_refusal_names_what_is_set_elsewhere(where, here):
    if where == "file":
        write(here / "pyproject.toml", "[tool.procession]\nnice = 25\n")
    env = {"PROCESSION_NICE": "25"} if where == "variable" else {}
    done = run("true", env=env)
    source = {"variable": "PROCESSION_NICE", "file": "nice in pyproject.toml"}[where]
    assert done.returncode == 2
    assert uncoded(done.stderr).endswith(f"not 25 (set elsewhere: --nice 25 ({source}))\n")


def test_a_variable_for_scripts_does_not_apply_to_a_binary(here):
    done = run("/bin/echo", "said", env={"PROCESSION_RUN_PATH": "1"})
    assert (done.returncode, done.stdout) == (0, "said\n")
    assert "PROCESSION_RUN_PATH is left out" in done.stderr
