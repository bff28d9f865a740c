"""Where options may stand, and in what order they count."""

import os
import subprocess
import sys

import pytest
from commandline import good, run

from support import write

SEE = """
import os
seen = [os.environ.get(name, "-") for name in ("WORLD_SIZE", "ROLE_NAME", "A", "B")]
os.write(1, (" ".join(seen) + "\\n").encode())
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    write(tmp_path / "see.py", SEE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PROCESSION_PREFIX", "")
    return tmp_path


def pyproject(directory, text):
    return write(directory / "pyproject.toml", f"[tool.procession]\n{text}\n")


ORDER = ["command line", "PROCESSION_ROLE", "PET_ROLE", "--config", "pyproject.toml", "default"]


@pytest.mark.parametrize("first", range(len(ORDER)))
def test_what_comes_first_counts(here, first, monkeypatch):
    words = []
    for number, place in enumerate(ORDER):
        if number < first or place == "default":
            continue
        if place == "command line":
            words += ["--role", "r0"]
        elif place == "--config":
            write(here / "own.toml", f"role = 'r{number}'")
            words += ["--config", "own.toml"]
        elif place == "pyproject.toml":
            pyproject(here, f"role = 'r{number}'")
        else:
            monkeypatch.setenv(place, f"r{number}")
    expected = "default" if ORDER[first] == "default" else f"r{first}"
    assert good(*words, "see.py") == f"1 {expected} - -\n"


def test_a_file_of_a_directory_above_and_the_nearest_one_that_has_the_table(here, monkeypatch):
    pyproject(here, "nproc-per-node = 2")
    inner = here / "a" / "b"
    write(inner / "pyproject.toml", "[project]\nname = 'procession'")
    monkeypatch.chdir(inner)
    assert good(here / "see.py") == "2 default - -\n" * 2
    pyproject(here / "a", "role = 'nearer'")
    assert good(here / "see.py") == "1 nearer - -\n"


def test_every_kind_of_value(here):
    text = """
        nproc_per_node = 2
        tee = "0:1"
        log-dir = "logs"
        local-ranks-filter = [1]
        dry-run = false
        standalone = false
        shutdown-timeout = 2.5
        env = { A = "x y", B = 3 }
    """
    write(here / "own.toml", text)
    assert good("--config", "own.toml", "-x", "A=mine", "see.py") == "2 default mine 3\n"
    assert len(os.listdir("logs")) == 1


def test_the_table_of_a_file_that_was_named(here):
    write(here / "all.toml", "[other]\nx = 1\n[tool.procession]\nrole = 'table'")
    assert good("--config", "all.toml", "see.py") == "1 table - -\n"


def test_variables_are_torchruns_only_under_its_name(here, monkeypatch):
    monkeypatch.setenv("PET_PREFIX", "no")
    monkeypatch.setenv("PET_STANDALONE", "1")
    monkeypatch.setenv("PROCESSION_STANDALONE", "0")
    monkeypatch.setenv("PET_NNODES", "1:1")
    monkeypatch.setenv("PROCESSION_NO_LEARN", "1")
    monkeypatch.setenv("PROCESSION_NPROC_PER_NODE", "2")
    monkeypatch.setenv("PET_NPROC_PER_NODE", "3")
    assert good("see.py") == "2 default - -\n" * 2


def test_a_variable_counts_for_the_first_program_only(here, monkeypatch):
    monkeypatch.setenv("PET_NPROC_PER_NODE", "2")
    assert good("see.py", ":", "-x", "A=1", "see.py").count("3 default") == 3


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nprocs-per-node = 2", "no option 'nprocs-per-node'; did you mean nproc-per-node?"),
        ("quux = 2", "pyproject.toml: there is no option 'quux'"),
        ("config = 'x'", "there is no option 'config'"),
        ("help = true", "there is no option 'help'"),
        ("nproc-per-node = 0", "nproc-per-node in pyproject.toml must be a count of 1 or more"),
        ("nproc-per-node = true", "nproc-per-node in pyproject.toml must be a text or a number"),
        ("standalone = 'yes'", "standalone in pyproject.toml must be true or false, not 'yes'"),
        ("log-dir = 3", "log-dir in pyproject.toml must be a text (DIR), not 3"),
        ("role = 1.5", "role in pyproject.toml must be a text (NAME), not 1.5"),
        ("env = { RANK = 7 }", "env in pyproject.toml: RANK is what each rank is told"),
        ("env = 'A=1'", "env in pyproject.toml must be a table of variables"),
        ("env = { A = [1] }", "env in pyproject.toml: A must be a text or a number"),
        ("local-ranks-filter = [[1]]", "must be a text or a number"),
        ("tee = 4", "tee in pyproject.toml: not a choice of streams: '4'"),
        ("tee = ", "pyproject.toml is not TOML: "),
        ("nnodes = '1:2'", "nnodes in pyproject.toml 1:2: a range is for machines that find each"),
        ("log-dir = '/proc/nope'", "error: log-dir in pyproject.toml '/proc/nope': cannot prepare"),
        ("logs-specs = 'zzz'", "error: logs-specs in pyproject.toml: there is no entry point"),
        ("memory-limit = '1K'", "error: memory-limit in pyproject.toml: '1K' is less than"),
    ],
)
def test_wrong_settings(here, text, said):
    pyproject(here, text)
    done = run("see.py")
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert said in done.stderr


@pytest.mark.parametrize(
    ("text", "words", "left_out"),
    [
        ("lease = 5", [], "lease in pyproject.toml is left out: it needs --engine"),
        ("lease = 9", [], "lease in pyproject.toml is left out: it needs --engine"),
        ("nnodes = 2\nnode-rank = 0", ["--standalone"], "nnodes in pyproject.toml is left out"),
        ("live = true", ["--json"], "live in pyproject.toml is left out: it does not go with"),
        ("detach = true", ["--json"], "detach in pyproject.toml is left out: it does not go with"),
        ("detach = true", ["--stdin", "0"], "detach in pyproject.toml is left out"),
        ("no-python = true", ["-m"], "no-python in pyproject.toml is left out: it does not go"),
        ("stdin = 3", ["-n", "2"], "stdin in pyproject.toml is left out: it names rank 3"),
        ("silence-timeout = 20", ["-n", "1"], "silence-timeout in pyproject.toml is left out"),
        ("silence-timeout = 20", ["-n", "2", "--prefix", ""], "is left out: it notices nothing"),
        ("numa-binding = 'node'", ["--cpus-per-rank", "1"], "numa-binding in pyproject.toml is"),
        ("cpus-per-rank = 1", ["--numa-binding", "node"], "cpus-per-rank in pyproject.toml is"),
        ("forward = 'SIGUSR1'", ["--preempt", "slurm"], "forward in pyproject.toml is left out"),
        ("preempt = 'slurm'", ["--forward", "SIGUSR1"], "preempt in pyproject.toml is left out"),
        ("run-path = true", ["-m"], "run-path in pyproject.toml is left out: it does not go"),
        ("run-path = true", ["--no-python", "true"], "run-path in pyproject.toml is left out"),
        ("run-path = true", ["true"], "run-path in pyproject.toml is left out: it is for scripts"),
        ("module = true", ["--run-path"], "module in pyproject.toml is left out: it does not go"),
        ("node-rank = 1", [], "node-rank in pyproject.toml is left out: it is 1, and this run is"),
        ("node-rank = 1", ["--standalone"], "node-rank in pyproject.toml is left out: it is 1"),
    ],
)  # fmt: skip
def test_settings_of_other_runs_are_left_out_with_a_note(here, text, words, left_out):
    """What a file says may be meant for other runs of the same directory."""
    pyproject(here, text)
    program = [] if "true" in words else ["see" if "-m" in words else "see.py"]
    done = run(*words, *program)
    assert done.returncode == 0, done.stderr
    (note,) = [line for line in done.stderr.splitlines() if "is left out" in line]
    assert left_out in note


BINDINGS = ("PROCESSION_NUMA_BINDING", "PROCESSION_CPUS_PER_RANK")
SIGNALS = ("PROCESSION_FORWARD", "PROCESSION_PREEMPT")


@pytest.mark.parametrize(
    ("variables", "values"), [(BINDINGS, ("node", "1")), (SIGNALS, ("SIGUSR1", "slurm"))]
)
def test_options_that_exclude_each_other_in_one_place_are_refused(
    here, monkeypatch, variables, values
):
    for variable, value in zip(variables, values, strict=True):
        monkeypatch.setenv(variable, value)
    done = run("see.py")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert " and ".join(variables) + " cannot go together" in done.stderr


def test_of_options_that_exclude_each_other_the_first_source_counts(here, monkeypatch):
    monkeypatch.setenv("PROCESSION_NUMA_BINDING", "node")
    pyproject(here, "cpus-per-rank = 1")
    done = run("see.py")
    assert done.returncode == 0, done.stderr
    said = "cpus-per-rank in pyproject.toml is left out: it does not go with"
    assert f"{said} PROCESSION_NUMA_BINDING" in done.stderr


@pytest.mark.parametrize(
    ("variable", "note"),
    [
        ("PROCESSION_MAX_RESTART", "sets nothing; did you mean PROCESSION_MAX_RESTARTS?"),
        ("PROCESSION_LOGDIR", "sets nothing; did you mean PROCESSION_LOG_DIR?"),
        ("PET_MAX_RESTART", "sets nothing; did you mean PET_MAX_RESTARTS?"),
    ],
)
def test_a_misspelt_variable_is_noticed(here, monkeypatch, variable, note):
    monkeypatch.setenv(variable, "3")
    done = run("see.py")
    assert done.returncode == 0
    assert done.stderr == f"procession: {variable} {note}\n"


def test_a_launcher_in_a_rank_says_nothing_of_the_variables_of_ranks(here):
    done = run("sh", "-c", f"{sys.executable} -m procession run see.py")
    assert (done.returncode, done.stdout, done.stderr) == (0, "1 default - -\n", "")


def test_variables_of_services_are_nobodys_mistake(here, monkeypatch):
    """Kubernetes makes them for a service of the name `procession`."""
    for name in ("SERVICE_HOST", "PORT", "PORT_29500_TCP_ADDR"):
        monkeypatch.setenv(f"PROCESSION_{name}", "10.0.0.1")
    assert run("see.py").stderr == ""


def test_procession_torchrun_reads_what_torchrun_reads(here, monkeypatch):
    pyproject(here, "role = 'toml'\nlog-dir = 'logs'\nredirects = 3")
    monkeypatch.setenv("PROCESSION_DETACH", "1")
    monkeypatch.setenv("PROCESSION_NPROC_PER_NODE", "3")
    monkeypatch.setenv("PET_NPROC_PER_NODE", "2")
    monkeypatch.setenv("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", "")
    torchrun = os.path.join(os.path.dirname(sys.executable), "procession-torchrun")
    done = subprocess.run(
        [torchrun, "see.py"], capture_output=True, text=True, timeout=40, check=False
    )
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [f"[{rank}] 2 default - -" for rank in (0, 1)]
    assert not (here / "logs").exists()
