"""What PROGRAM may be, what of the command line is its own, and several programs in one group."""

import json
import os
import shlex
import sys
import zipfile
from pathlib import Path

import pytest
from commandline import good, only, run

from seams.cli import read_request
from seams.values import words_of
from support import run_program, run_python, write

TORCHRUN = Path(sys.executable).with_name("procession-torchrun")
SEE = """
import os, sys
names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "KIND", "OWN")
print(os.path.basename(__file__), *(os.environ.get(n, "-") for n in names), *sys.argv[1:])
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Be in a directory with programs of all kinds."""
    for name in ("ps.py", "worker.py", "plain", "-x.py", "app/__main__.py", "part0.py", "part1.py"):
        write(tmp_path / name, SEE)
    write(tmp_path / "greet", "#!/bin/sh\necho rank $RANK says $1\n").chmod(0o755)
    write(tmp_path / "false.py", "#!/bin/false\nprint('ran')").chmod(0o755)
    write(tmp_path / "package" / "__init__.py", "")
    write(tmp_path / "package" / "__main__.py", SEE)
    (tmp_path / "printf").mkdir()
    (tmp_path / "date").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def ranks(words, *, torchrun=False):
    """Read a command line in this process; gives the kind and the words of each rank's program."""
    spec = read_request(shlex.split(words), torchrun=torchrun).spec
    found = []
    for rank in range(spec.nproc):
        program = spec.program_of(rank)
        filled = spec.filled([*words_of(program), *map(str, spec.args[rank])], rank)
        found.append(" ".join([type(program).__name__.lower(), *filled]))
    return found


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        # What it is.
        ("ps.py a 'b c'", "script ps.py a b c"),
        ("false.py", "script false.py"),
        ("plain x", "script plain x"),
        ("app x", "script app x"),
        ("./greet hi", "command ./greet hi"),
        ("/bin/echo hello", "command /bin/echo hello"),
        ("printf hello", "command printf hello"),  # the directory hides no program
        ("./date", "script ./date"),  # it is not executable
        ("-m worker x", "module worker x"),
        ("--no-python ./false.py", "command ./false.py"),
        ("--run-path ./greet a", "script ./greet a"),
        # What is its own.
        ("ps.py -n 4 --help -h -m other", "script ps.py -n 4 --help -h -m other"),
        ("ps.py --nproc_per_node=8 --version -", "script ps.py --nproc_per_node=8 --version -"),
        ("ps.py '${RANK}' '$HOME' '*'", "script ps.py ${RANK} $HOME *"),
        ("-n1 -m worker -m -n 2 --help", "module worker -m -n 2 --help"),
        ("-n 1 -- ps.py -n 3", "script ps.py -n 3"),
        ("-- -x.py x", "script -x.py x"),
        ("ps.py : -y : b :", "script ps.py : -y : b :"),
        # One dash pair of a Python program is left out, as by torchrun.
        ("ps.py -- --r=16", "script ps.py --r=16"),
        ("-m worker -- -- x --", "module worker -- x --"),
        ("ps.py -- '${local_rank}'", "script ps.py 0"),
        ("cat -- -x.py", "command cat -- -x.py"),
        # What is filled in.
        ("ps.py --gpu='${local_rank}' '$local_rank' '$$1' '${other}' '$'",
         "script ps.py --gpu=0 0 $1 ${other} $"),
        ("cat '$$' '$1' '$local_rank' '${other}' '${local_rank}'",
         "command cat $$ $1 $local_rank ${other} 0"),
    ],
)  # fmt: skip
def test_a_program(here, words, expected):
    assert ranks(words) == [expected]


def test_numbers_in_arguments_and_names(here):
    numbers = "'${local_rank}/${rank}/${world_size}'"
    at = "--nnodes 3 --node-rank 2 --engine none --master-addr a -n 2"
    for program in ("ps.py", "cat"):
        assert [r.split()[-1] for r in ranks(f"{at} {program} {numbers}")] == ["0/4/6", "1/5/6"]
    assert ranks("-n 2 'part${local_rank}.py'") == ["script part0.py", "script part1.py"]
    assert ranks("ps.py '${rank}' : -n 1 cat '${local_rank}'") == [
        "script ps.py 0",
        "command cat 1",
    ]
    assert ranks(f"ps.py {numbers}", torchrun=True) == ["script ps.py 0/${rank}/${world_size}"]


@pytest.mark.parametrize(
    "words",
    [
        "--nproc_per_node 2 --log_dir logs --redirects 3 --start_method spawn ps.py",
        "--nproc_per_node=2 --log_dir=logs --redirects=3 ps.py",
        "-n2 --log-dir=logs -r3 ps.py",
    ],
)
def test_spellings(here, words):
    spec = read_request(shlex.split(words)).spec
    assert (spec.nproc, spec.logs.dir, int(spec.logs.redirect)) == (2, "logs", 3)


@pytest.mark.parametrize("method", ["forkserver", "spawn"])
@pytest.mark.parametrize("words", ["ps.py a", "-m worker a", "app a", "./greet a"])
def test_it_runs(here, method, words):
    done = run("-n", 2, "--start-method", method, *words.split())
    said = "rank {} says a" if "greet" in words else "{1} {0} 2 {0} - - a"
    name = {"-m": "worker.py", "app": "__main__.py"}.get(words.split()[0], "ps.py")
    wanted = [f"[{rank}] {said.format(rank, name)}" for rank in (0, 1)]
    assert sorted(done.stdout.splitlines()) == wanted, done.stderr


@pytest.mark.parametrize("program", ["tell.py", "d", "./d", "d/", "z.pyz", "./z.pyz", "-m tell"])
def test_a_relative_path_holds_after_a_change_of_the_directory(here, program):
    """Names and paths are those of Python itself, and modules beside the program are found."""
    text = """
        import os, sys
        said = [sys.argv[0], sys.path[0], __file__, sys.executable]
        os.chdir("/")
        import beside
        print(*said, beside.__file__)
    """
    for name in ("tell.py", "d/__main__.py", "z/__main__.py"):
        write(here / name, text)
        write((here / name).parent / "beside.py", "")
    with zipfile.ZipFile(here / "z.pyz", "w") as archive:
        for name in ("__main__.py", "beside.py"):
            archive.write(here / "z" / name, name)
    words = program.split()
    assert good(*words) == run_python(*words).stdout


def test_modules_that_are_found_by_others(here, monkeypatch):
    """In a package without `__init__`, or found as by editable installs."""
    write(here / "bare" / "deep" / "part.py", "print('deep down')")
    assert good("-m", "bare.deep.part") == "deep down\n"
    finder = """
        import importlib.util, sys

        class Finder:
            @staticmethod
            def find_spec(name, path, target=None):
                where = {"made": "package/__init__.py", "made.up": "package/__main__.py"}.get(name)
                return where and importlib.util.spec_from_file_location(name, where)

        sys.meta_path.append(Finder)
    """
    write(here / "sitecustomize.py", finder)
    monkeypatch.setenv("PYTHONPATH", str(here))
    assert good("-m", "made.up") == "__main__.py 0 1 0 - -\n"


# -- several programs


def test_each_has_its_own_ranks_variables_and_kind(here, monkeypatch):
    monkeypatch.setenv("OWN", "mine")
    said = good("-x", "KIND=ps", "ps.py", "a", ":", "-n", 2, "--env", "KIND=w", "-x", "OWN",
                "-m", "worker", ":", "-x", "KIND=3", "--no-python", "sh", "-c",
                'echo sh $RANK $KIND', ":", "-n1", "-x", "OWN=", "printenv", "OWN")  # fmt: skip
    assert sorted(said.splitlines()) == [
        "[0] ps.py 0 5 0 ps mine a",
        "[1] worker.py 1 5 1 w mine",
        "[2] worker.py 2 5 2 w mine",
        "[3] sh 3 3",
        "[4] ",
    ]


def test_the_first_failure_ends_all_programs(here):
    write(here / "bad.py", "raise SystemExit('it is bad')")
    done = run("--log-dir", "logs", "sleep", 60, ":", "-n", 1, "bad.py")
    assert done.returncode == 1
    assert "sleep:bad.py failed: rank 1 of 2" in done.stderr
    assert "it is bad" in done.stderr
    written = json.loads((only(here / "logs") / "run.json").read_text())
    assert (written["programs"], written["args"]) == ([["sleep"], ["bad.py"]], [["60"], []])


def test_dry_run_tells_each_rank(here):
    said = good("--dry-run", "-x", "KIND=ps", "ps.py", "a b", ":", "-n", 2, "echo", "${local_rank}")
    assert said.startswith("3 ranks of: several command lines\n")
    for part in ("KIND=ps", "RANK=0", "ps.py 'a b'\n", "    runs echo 1\n", "    runs echo 2\n"):
        assert part in said, said
    assert "nothing is preloaded: there are several programs" in said
    said = good("--dry-run", "--nnodes=2", "--node-rank=1", "--master-addr=head", "-n=2",
                "--rdzv-id=job", "--virtual-local-rank", "ps.py", "${local_rank}")  # fmt: skip
    for part in ("on node 1 of 2", "MASTER_ADDR=head", "MASTER_PORT=29500", " RANK=3",
                 "TORCHELASTIC_RUN_ID=job", "CUDA_VISIBLE_DEVICES=1", "WORLD_SIZE=4"):  # fmt: skip
        assert part in said, said


# -- what cannot be started


def test_interpreter_line_that_leads_nowhere(here):
    write(here / "lost", "#!/no/such/interpreter\n").chmod(0o755)
    done = run("-n", "2", "./lost")
    assert done.returncode == 1
    assert "lost failed: rank " in done.stderr
    assert "No such file or directory" in done.stderr
    assert "#!" in done.stderr


# -- torchrun's name


def torchrun(*words):
    return run_program(TORCHRUN, *words)


def test_torchrun_by_path_takes_torchruns_abbreviations(here):
    words = ["--nproc_per_n", "2", "--max-r=1", "--master_p", "0", "--stand"]
    done = torchrun(*words, "--loc", "0", "ps.py", "--", "--max-r")
    assert done.returncode == 2
    assert "there is no option '--loc'; did you mean --local-addr?" in done.stderr
    done = torchrun(*words, "ps.py", "--", "--max-r")
    assert sorted(done.stdout.splitlines()) == [
        f"[{r}] ps.py {r} 2 {r} - - --max-r" for r in (0, 1)
    ]


def test_torchrun_by_path_takes_torchruns_words_only(here):
    # What is no program of its own for us is Python for torchrun.
    done = torchrun("--nproc_per_node", "1", "--log_dir=", "false.py", ":", "-n", "2")
    assert (done.stdout, done.returncode) == ("ran\n", 0), done.stderr
    for words, said in (
        (
            ["--devices", "cuda", "ps.py"],
            "there is no option '--devices'; see procession-torchrun --help",
        ),
        (["--hang-timeout", "1", "ps.py"], "there is no option '--hang-timeout'"),
        (["missing"], "there is no script 'missing'"),
        ([], "PROGRAM is missing"),
    ):
        refused = torchrun(*words)
        assert refused.returncode == 2
        assert refused.stderr.startswith("procession-torchrun: error: ")
        assert said in refused.stderr
        assert len(refused.stderr.splitlines()) == 1
    told = torchrun("--help").stdout
    assert "procession-torchrun [options] SCRIPT" in told
    assert "--rdzv-conf" in told
    assert "--devices" not in told


def test_python_of_another_environment(here):
    other = write(here / "python", f'#!/bin/sh\necho other "$@"\nexec {sys.executable} "$@"\n')
    other.chmod(0o755)
    env = {**os.environ, "PYTHON_EXEC": str(other)}
    done = run("ps.py", "a", env=env)
    assert done.stdout == "other -u ps.py a\nps.py 0 1 0 - - a\n", done.stderr
    assert run("-m", "worker", "a", env=env).stdout.startswith("other -u -m worker a\n")
    assert run("printf", "a", env=env).stdout == "a"
