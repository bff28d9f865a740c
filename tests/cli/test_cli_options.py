"""What options are read as, where they are set, in what order they count, and what is said."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from commandline import good, run

import write_options
from procession.devices import AUTO, KINDS
from seams.cli import (
    Option,
    completion,
    make_parser,
    options,
    programs,
    read_request,
    readers,
)
from seams.jobs import NAMES
from seams.system import Accelerators, accelerators
from seams.values import Hang, Logs, Placement, Restart, SpecError, Stop
from seams.wire import CHOICES
from support import write

POLICIES = {"logs": Logs, "stop": Stop, "restart": Restart, "hang": Hang, "placement": Placement}


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Be in a directory with a script, without variables that set options."""
    write(tmp_path / "see.py", "")
    monkeypatch.chdir(tmp_path)
    for name in [n for n in os.environ if n.startswith(("PROCESSION_", "PET_", "SLURM_"))]:
        monkeypatch.delenv(name)
    return tmp_path


def request(words="", program="see.py"):
    return read_request([*shlex.split(words), *program.split()])


def asked(words=""):
    return request(words).spec


def pyproject(directory, text):
    return write(directory / "pyproject.toml", f"[tool.procession]\n{text}\n")


# -- the table


@pytest.fixture
def with_row(here, monkeypatch):
    """Add an option to the table: one row, for a field that a policy has."""
    row = Option(
        ("--linger",), "SECONDS", "how long other ranks go on after a failure",
        read=readers.number, target="stop.linger",
    )  # fmt: skip
    monkeypatch.setitem(options.TABLE, "failures and start", (*options.LIFE, row))
    return here


def test_a_row_is_read_from_every_place(with_row, monkeypatch):
    assert asked("--linger 2.5").stop == Stop(linger=2.5)
    pyproject(with_row, "linger = 4")
    assert asked().stop == Stop(linger=4.0)
    monkeypatch.setenv("PROCESSION_LINGER", "3")
    assert asked().stop == Stop(linger=3.0)
    assert asked("--linger=1 --shutdown-timeout=9").stop == Stop(linger=1.0, grace=9.0)


def test_a_row_is_refused_and_shown_everywhere(with_row, monkeypatch):
    with pytest.raises(SpecError, match="--linger must be a number, not 'x'"):
        asked("--linger x")
    monkeypatch.setenv("PROCESSION_LINGER", "-1")
    with pytest.raises(SpecError, match="PROCESSION_LINGER must be seconds, 0 or more"):
        asked()
    assert "--linger SECONDS" in make_parser().help_text()
    assert "linger" in completion.parsers()["run"].options
    assert "| `--linger` `SECONDS` | how long other ranks go on" in write_options.text()


def test_rows_name_what_there_is():
    for option in options.OPTIONS.values():
        of, _, field = option.target.partition(".")
        if of in POLICIES and field != "*":
            assert field in POLICIES[of].__match_args__, option.written
        assert {option.needs} <= {"", *options.OPTIONS}
    assert set(options.OPTIONS["devices"].words) == {AUTO, *KINDS}
    assert set(options.OPTIONS["engine"].words) == {*NAMES, "none"}
    assert options.OPTIONS["link_encryption"].words == CHOICES


def test_the_page_about_options_is_up_to_date():
    page = Path(write_options.__file__).with_name("reference") / "cli.md"
    assert write_options.text() in page.read_text("utf-8")


# -- where options are set

ORDER = ["command line", "PROCESSION_ROLE", "PET_ROLE", "--config", "pyproject.toml", "default"]


@pytest.mark.parametrize("first", range(len(ORDER)))
def test_what_comes_first_counts(here, first, monkeypatch):
    words = ""
    for number, place in enumerate(ORDER[first:], start=first):
        if place == "command line":
            words += "--role r0 "
        elif place == "--config":
            write(here / "own.toml", f"role = 'r{number}'")
            words += "--config own.toml"
        elif place == "pyproject.toml":
            pyproject(here, f"role = 'r{number}'")
        elif place != "default":
            monkeypatch.setenv(place, f"r{number}")
    expected = "" if ORDER[first] == "default" else f"r{first}"
    assert asked(words).node.role == expected


def test_a_file_of_a_directory_above_and_the_nearest_one_that_has_the_table(here, monkeypatch):
    pyproject(here, "nproc-per-node = 2")
    inner = here / "a" / "b"
    write(inner / "pyproject.toml", "[project]\nname = 'procession'")
    write(inner / "see.py", "")
    monkeypatch.chdir(inner)
    assert asked().nproc == 2
    pyproject(here / "a", "role = 'nearer'")
    assert (asked().nproc, asked().node.role) == (1, "nearer")


def test_every_kind_of_value(here):
    text = """
        nproc_per_node = 2
        tee = "0:1"
        log-dir = "logs"
        local-ranks-filter = [1]
        dry-run = false
        shutdown-timeout = 2.5
        env = { A = "x y", B = 3 }
    """
    write(here / "own.toml", text)
    spec = asked("--config own.toml -x A=mine")
    assert (spec.nproc, spec.logs.dir, spec.logs.ranks, spec.stop.grace) == (2, "logs", [1], 2.5)
    assert {"A": "mine", "B": "3"}.items() <= spec.env[0].items()
    write(here / "all.toml", "[other]\nx = 1\n[tool.procession]\nrole = 'table'")
    assert asked("--config all.toml").node.role == "table"


def test_variables_are_torchruns_only_under_its_name(here, monkeypatch):
    for name, text in {
        "PET_PREFIX": "no", "PET_STANDALONE": "1", "PROCESSION_STANDALONE": "0",
        "PET_NNODES": "1:1", "PROCESSION_NPROC_PER_NODE": "2", "PET_NPROC_PER_NODE": "3",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, text)
    spec = asked()
    assert (spec.nproc, spec.logs.prefix, spec.node.count) == (2, "auto", 1)
    assert asked("see.py : -x A=1").nproc == 3  # counts for the first program only


def test_an_empty_variable_puts_an_option_back_to_its_default(here, monkeypatch):
    pyproject(here, "max-restarts = 3\nshutdown-timeout = 4")
    monkeypatch.setenv("PROCESSION_MAX_RESTARTS", "")
    monkeypatch.setenv("PROCESSION_SHUTDOWN_TIMEOUT", "")
    spec = asked()
    assert (spec.restart.max, spec.stop.grace) == (0, 30.0)


def test_procession_torchrun_reads_what_torchrun_reads(here, monkeypatch):
    pyproject(here, "role = 'toml'\nlog-dir = 'logs'\nredirects = 3")
    monkeypatch.setenv("PROCESSION_NPROC_PER_NODE", "3")
    monkeypatch.setenv("PET_NPROC_PER_NODE", "2")
    monkeypatch.setenv("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", "")
    write(here / "see.py", "import os; print(os.environ['ROLE_NAME'])")
    torchrun = os.path.join(os.path.dirname(sys.executable), "procession-torchrun")
    said = subprocess.check_output([torchrun, "see.py"], text=True, timeout=40)
    assert sorted(said.splitlines()) == [f"[{rank}] default" for rank in (0, 1)]
    assert not (here / "logs").exists()


# -- what is left out, with a note


@pytest.mark.parametrize(
    ("text", "words", "left_out"),
    [
        ("lease = 5", "", "lease in pyproject.toml is left out: it needs --engine"),
        ("nnodes = 2\nnode-rank = 0", "--standalone", "nnodes in pyproject.toml is left out"),
        ("node-rank = 1", "", "is left out: it is 1, and this run is on one machine"),
        ("detach = true", "--stdin 0", "detach in pyproject.toml is left out"),
        ("silence-timeout = 20", "-n 2 --prefix ''", "is left out: it notices nothing"),
        ("cpus-per-rank = 1", "--numa-binding node", "cpus-per-rank in pyproject.toml is"),
        ("min-uptime = 5", "", "is left out: it does nothing without --max-restarts"),
        ("module = true", "--run-path see.py", "module in pyproject.toml is left out"),
    ],
)
def test_settings_of_other_runs_are_left_out_with_a_note(here, text, words, left_out):
    """What a file says may be meant for other runs of the same directory."""
    pyproject(here, text)
    (note,) = [note for note in request(words, "/bin/true").notes if "is left out" in note]
    assert left_out in note


@pytest.mark.parametrize(
    ("words", "note"),
    [
        ("-n 2 -r 0:0,7:3", "-r/--redirects names rank 7, but the ranks are 0 to 1"),
        ("--duplicate-stdout-filters a", "copies nothing: it is for what -t/--tee sends"),
        ("--event-log-handler console", "--event-log-handler has no effect"),
    ],
)
def test_what_has_no_effect_is_said(here, words, note):
    (said,) = request(words).notes
    assert note in said


def test_a_launcher_in_a_rank_says_nothing_of_the_variables_of_ranks(here):
    done = run("sh", "-c", f"{sys.executable} -m procession run echo $RANK")
    assert (done.returncode, done.stdout, done.stderr) == (0, "0\n", "")


def test_a_dry_run_says_where_options_come_from(here, monkeypatch):
    pyproject(here, "status = 9\nlease = 5")
    monkeypatch.setenv("PROCESSION_TEE", "3")
    monkeypatch.setenv("PROCESSION_LOG_DIR", "https://me:hush1@there")
    done = run("--dry-run", "--cpus-per-rank", "1", "true")
    (line,) = [each for each in done.stdout.splitlines() if each.startswith("options set")]
    for part in ("--tee 3 (PROCESSION_TEE)", "--status 9 (status in pyproject.toml)"):
        assert part in line
    assert "--cpus-per-rank" not in line
    assert "hush1" not in line
    assert "lease in pyproject.toml is left out: it needs --engine" in done.stderr


def test_a_dry_run_knows_the_hosts(here):
    out = good("--dry-run", "--engine", "ssh", "--hosts", "h1:2,h2:2,h3:2", "see.py")
    assert " WORLD_SIZE=6" in out
    assert " GROUP_WORLD_SIZE=3" in out


# -- counts of ranks

NVIDIA = Accelerators("NVIDIA", (None,) * 4, 4)
INTEL = Accelerators("Intel", (None,) * 6, 6)
CORES = len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("text", "found", "variables", "expected"),
    [
        ("cpu", [NVIDIA], {}, CORES),
        ("gpu", [NVIDIA], {}, 4),
        ("gpu", [NVIDIA], {"CUDA_VISIBLE_DEVICES": "GPU-1,GPU-3"}, 2),
        ("auto", [INTEL], {}, 6),
        ("auto", [NVIDIA], {"CUDA_VISIBLE_DEVICES": ""}, CORES),
        ("gpu", [], {}, "-n/--nproc-per-node gpu: this machine shows no NVIDIA and no AMD device"),
        ("gpu", [NVIDIA], {"CUDA_VISIBLE_DEVICES": "-1"}, "shows no NVIDIA"),
        ("gpu", [NVIDIA], {"CUDA_VISIBLE_DEVICES": "1,1"}, "gpu: CUDA_VISIBLE_DEVICES='1,1'"),
        ("xpu", [NVIDIA], {}, "xpu: this machine shows no Intel device"),
    ],
)
def test_counts(here, monkeypatch, text, found, variables, expected):
    monkeypatch.setattr(accelerators, "find", lambda: list(found))
    for _, names in programs.ACCELERATORS.values():
        for name in names:
            monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    if isinstance(expected, int):
        assert asked(f"-n {text}").nproc == expected
    else:
        with pytest.raises(SpecError) as refused:
            asked(f"-n {text}")
        assert expected in str(refused.value)
