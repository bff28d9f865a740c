"""Several programs in one command line, with their own counts, arguments and environments."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from commandline import good, only, run

from support import write

SEE = """
import os, sys
names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "KIND", "OWN")
print(os.path.basename(__file__), *(os.environ.get(n, "-") for n in names), *sys.argv[1:])
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    for name in ("ps.py", "worker.py"):
        write(tmp_path / name, SEE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def lines(*words):
    return sorted(good(*words).splitlines())


def test_two_programs_are_one_group(here):
    assert lines("-n", 1, "ps.py", "a", ":", "-n", 3, "worker.py", "b", "c") == [
        "[0] ps.py 0 4 0 - - a",
        "[1] worker.py 1 4 1 - - b c",
        "[2] worker.py 2 4 2 - - b c",
        "[3] worker.py 3 4 3 - - b c",
    ]


def test_each_has_its_own_variables_and_kind(here):
    said = lines("-x", "KIND=ps", "ps.py", ":", "-n", 2, "--env", "KIND=w", "-x", "OWN=1",
                 "-m", "worker", ":", "-x", "KIND=3", "--no-python", "sh", "-c",
                 'echo sh $RANK $KIND', ":", "-n1", "echo", ":", "end")  # fmt: skip
    assert said == [
        "[0] ps.py 0 5 0 ps -",
        "[1] worker.py 1 5 1 w 1",
        "[2] worker.py 2 5 2 w 1",
        "[3] sh 3 3",
        "[4] : end",
    ]


def test_a_variable_that_is_set_may_be_named_only(here, monkeypatch):
    monkeypatch.setenv("OWN", "mine")
    assert good("-x", "OWN", "ps.py") == "ps.py 0 1 0 - mine\n"


def test_a_colon_among_arguments_stays_there(here):
    assert good("ps.py", ":", "-y", ":", "b", ":") == "ps.py 0 1 0 - - : -y : b :\n"


def test_the_local_rank_in_arguments(here):
    said = lines(
        "-n", 2, "ps.py", "--gpu=${local_rank}", "$local_rank", "$$1", "${other}", "$1", "$"
    )
    assert said == [f"[{r}] ps.py {r} 2 {r} - - --gpu={r} {r} $1 ${{other}} $1 $" for r in (0, 1)]
    said = lines("ps.py", "${local_rank}", ":", "-n", 1, "worker.py", "${local_rank}")
    assert said == ["[0] ps.py 0 2 0 - - 0", "[1] worker.py 1 2 1 - - 1"]


NUMBERS = "${local_rank}/${rank}/${world_size}"


def test_the_numbers_of_the_whole_job_in_arguments(here):
    at = ("--nnodes", 3, "--node-rank", 2, "--rdzv-conf", "apart=1", "--master-addr", "a", "-n", 2)
    for program in (["ps.py"], ["echo", "ps.py 0 2 0 - -"]):
        said = [line.split()[-1] for line in lines(*at, *program, NUMBERS)]
        assert said == ["0/4/6", "1/5/6"]
    dry = good("--dry-run", *at, "echo", NUMBERS)
    assert "echo 1/5/6" in dry


def test_torchrun_fills_in_the_local_rank_alone(here):
    torchrun = Path(sys.executable).with_name("procession-torchrun")
    said = subprocess.check_output([torchrun, "ps.py", NUMBERS], text=True, timeout=40)
    assert said.split()[-1] == "0/${rank}/${world_size}"


def test_arguments_of_commands_are_left_alone(here):
    words = ["printf", "%s\n", "$$", "$1", "$local_rank", "${other}", "${local_rank}"]
    assert good(*words).splitlines() == ["$$", "$1", "$local_rank", "${other}", "0"]
    assert good("sh", "-c", '[ "$$" -gt 1 ] && echo a number').splitlines() == ["a number"]
    words = ["--no-python", sys.executable, "-c", "import sys; print(*sys.argv[1:])", "$$"]
    assert good(*words).splitlines() == ["$$"]


def test_a_variable_may_be_empty(here):
    for name in ("OWN", "PYTHONPATH", "LC_ALL"):
        code = f"import os; print([os.environ.get({name!r})])"
        write(here / "see.py", code)
        for words in (["see.py"], ["--no-python", sys.executable, "see.py"], ["-m", "see"]):
            said = good("-x", f"{name}=", *words, env={**os.environ, name: "/set"})
            assert said == "['']\n", (name, words)


@pytest.mark.parametrize("name", ["RANK", "LOCAL_RANK", "WORLD_SIZE", "PROCESSION_RUN"])
def test_what_ranks_are_told_cannot_be_set(here, name):
    for word in (f"{name}=7", name):
        done = run("-x", word, "ps.py", env={**os.environ, name: "1"})
        assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
        assert f"-x/--env: {name} is what each rank is told by its launcher" in done.stderr


def test_the_local_rank_in_the_name_of_a_script(here):
    for rank in (0, 1):
        write(here / f"part{rank}.py", f"print('part {rank}')")
    assert lines("-n", 2, "part${local_rank}.py") == ["[0] part 0", "[1] part 1"]
    done = run("-n", 3, "part${local_rank}.py")
    assert (done.returncode, done.stdout) == (2, "")
    assert "there is no script 'part2.py'" in done.stderr


def test_the_first_failure_ends_all_programs(here):
    write(here / "bad.py", "raise SystemExit('it is bad')")
    done = run("sleep", 60, ":", "-n", 1, "bad.py")
    assert done.returncode == 1
    assert "sleep:bad.py failed: rank 1 of 2" in done.stderr
    assert "it is bad" in done.stderr


def test_what_was_run_is_written_down(here):
    good("--log-dir", "logs", "-r", 3, "ps.py", "a", ":", "-n", 1, "true")
    written = json.loads((only(here / "logs") / "run.json").read_text())
    assert written["name"] == "ps.py:true"
    assert written["programs"] == [["ps.py"], ["true"]]
    assert written["args"] == [["a"], []]


def test_dry_run_tells_each_rank(here):
    said = good("--dry-run", "-x", "KIND=ps", "ps.py", "a b", ":", "-n", 2, "echo", "${local_rank}")
    assert said.startswith("3 ranks of: several command lines\n")
    for part in ("KIND=ps", "RANK=0", "ps.py 'a b'\n", "    runs echo 1\n", "    runs echo 2\n"):
        assert part in said, said
    assert "nothing is preloaded: there are several programs" in said


def test_dry_run_tells_nodes_and_where_ranks_meet(here):
    said = good("--dry-run", "--nnodes=2", "--node-rank=1", "--master-addr=head", "-n=2",
                "--rdzv-id=job", "--virtual-local-rank", "ps.py", "${local_rank}")  # fmt: skip
    for part in ("on node 1 of 2", "MASTER_ADDR=head", "MASTER_PORT=29500", " RANK=3",
                 "TORCHELASTIC_RUN_ID=job", "CUDA_VISIBLE_DEVICES=1", "WORLD_SIZE=4"):  # fmt: skip
        assert part in said, said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["ps.py", ":", "-n", "0", "worker.py"], "-n/--nproc-per-node must be a count"),
        (["ps.py", ":", "-n", "2"], "PROGRAM is missing"),
        ([":", "-n", "2", "ps.py"], "PROGRAM is missing"),
        (["ps.py", ":", "-n", "2", "-t", "3", "worker.py"], "-t/--tee is for all programs"),
        (["ps.py", ":", "-n", "2", "--quux", "worker.py"], "there is no option '--quux'"),
        (["ps.py", ":", "-n", "2", "no-such.py"], "there is no script 'no-such.py'"),
        (["ps.py", ":", "-n", "2", "-m", "--no-python", "x"], "cannot go together"),
        (["-x", "=1", "ps.py"], "-x/--env must be NAME=VALUE"),
        (["-x", "NOT_SET_ANYWHERE", "ps.py"], "the NAME of a variable that is set"),
        (["-x"], "-x/--env needs a value"),
    ],
)
def test_wrong_parts(here, words, said):
    done = run(*words)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert said in done.stderr
