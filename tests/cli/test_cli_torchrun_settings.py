"""Where options may stand, and in what order they count."""

import os

import pytest
from commandline import good, run

from support import run_python, write

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
        no-learn = true
        standalone = false
        shutdown-timeout = 2.5
        env = { A = "x y", B = 3 }
    """
    write(here / "own.toml", text)
    assert good("--config", "own.toml", "-x", "A=mine", "see.py") == "2 default mine 3\n"
    assert len(os.listdir("logs")) == 1


def test_a_list_may_hold_commas(here):
    write(here / "own.toml", "tee = 3\nlog-dir = 'logs'\nduplicate-stdout-filters = ['a,b', 'c']")
    write(here / "say.py", "print('xa,b'); print('a'); print('b'); print('c')")
    good("--config", "own.toml", "say.py")
    (copy,) = (here / "logs").glob("*/attempt_0/filtered_stdout.log")
    assert copy.read_text() == "xa,b\nc\n"


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
        ("env = 'A=1'", "env in pyproject.toml must be a table of variables"),
        ("env = { A = [1] }", "env in pyproject.toml: A must be a text or a number"),
        ("local-ranks-filter = [[1]]", "must be a text or a number"),
        ("tee = 4", "tee in pyproject.toml: not a choice of streams: '4'"),
        ("tee = ", "pyproject.toml is not TOML: "),
        ("nnodes = '1:2'", "nnodes in pyproject.toml 1:2: procession has no groups whose size"),
    ],
)
def test_wrong_settings(here, text, said):
    pyproject(here, text)
    done = run("see.py")
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert said in done.stderr


def test_a_table_that_is_none(here):
    write(here / "pyproject.toml", "[tool]\nprocession = 3  # tool.procession")
    done = run("see.py")
    assert done.returncode == 2
    assert "tool.procession must be a table" in done.stderr


def test_a_broken_file_that_is_not_ours_to_read(here):
    write(here / "pyproject.toml", "[project\nname = ")
    assert good("see.py") == "1 default - -\n"


def test_files_in_a_directory_for_everybody_are_passed_over(here, monkeypatch):
    pyproject(here, "role = 'of a stranger'")
    here.chmod(0o1777)
    (here / "mine").mkdir(mode=0o755)
    monkeypatch.chdir(here / "mine")
    assert good(here / "see.py") == "1 default - -\n"


def test_without_a_table_no_file_is_parsed(here):
    write(here / "pyproject.toml", "[project]\nname = 'procession'")
    code = """
        import sys
        from procession.cli import main
        assert main(["run", "-n", "2", "true"]) == 0
        heavy = {"tomllib", "tomli", "procession.cli.completion", "procession.elastic",
                 "procession.cli.told", "procession.cli.logs_specs", "importlib.metadata", "string"}
        print(sorted(heavy & set(sys.modules)))
    """
    done = run_python(write(here / "launch.py", code))
    assert done.stdout == "[]\n", done.stderr
