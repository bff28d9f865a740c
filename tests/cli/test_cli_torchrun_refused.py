"""What torchrun can do and procession cannot, or nobody can: one line, code 2, nothing started."""

import os

import pytest
from commandline import good, run

from support import write

WRONG = {
    "a range of nodes": (["--nnodes", "1:4"], "write --rdzv-backend c10d --rdzv-endpoint"),
    "no nodes": (["--nnodes", "0"], "--nnodes must be a count of 1 or more, not '0'"),
    "a range the wrong way": (["--nnodes", "4:1"], "must be LEAST:MOST, the smaller count first"),
    "nodes in words": (["--nnodes", "two"], "--nnodes must be a count of machines, not 'two'"),
    "three numbers of nodes": (["--nnodes", "1:2:3"], "--nnodes must be a count of machines"),
    "etcd over nodes": (
        ["--nnodes", "2", "--rdzv-backend", "etcd", "--rdzv-endpoint", "head:2379"],
        "--rdzv-backend etcd: procession needs no server of etcd; write --rdzv-backend c10d",
    ),
    "a store in a file": (
        ["--nnodes", "2", "--rdzv-backend", "c10d", "--rdzv-conf", "store_type=file"],
        "--rdzv-conf store_type must be tcp, not 'file'",
    ),
    "settings of c10d": (
        ["--nnodes", "2", "--rdzv-backend", "c10d", "--rdzv-conf", "last_cal_timeout=3"],
        "--rdzv-conf has no 'last_cal_timeout': did you mean last_call_timeout?",
    ),
    "an input for ranks elsewhere": (
        ["--nnodes", "2", "--rdzv-backend", "c10d", "--stdin", "0"],
        "--stdin cannot be: ranks on other machines cannot read this input",
    ),
    "misspelt backend": (["--rdzv-backend", "c10b"], "did you mean c10d?"),
    "unknown backend": (["--rdzv-backend", "zeus"], "there is no rendezvous 'zeus'"),
    "standalone over nodes": (["--standalone", "--nnodes", "2"], "--standalone is for one machine"),
    "a node that is not there": (["--nnodes", "2", "--node-rank", "2"], "numbered 0 to 1"),
    "a node of one": (["--node-rank", "1"], "numbered 0 to 0"),
    "nowhere to meet": (["--nnodes", "2"], "--nnodes says 2 machines, but not where ranks meet"),
    "negative node": (["--nnodes", "2", "--node-rank", "-1"], "--node-rank must be a number"),
    "port that is none": (["--master-port", "http"], "--master-port must be a port"),
    "port too high": (["--master-port", "70000"], "--master-port must be a port from 1 to 65535"),
    "endpoint without a port": (["--rdzv-endpoint", "head"], "--rdzv-endpoint must be HOST:PORT"),
    "endpoint half in brackets": (["--rdzv-endpoint", "[::1"], "--rdzv-endpoint must be HOST:PORT"),
    "endpoint without brackets": (["--rdzv-endpoint", "::1"], "brackets, as in [::1]:29400, not"),
    "endpoint without a host": (["--rdzv-endpoint", ":29400"], "--rdzv-endpoint must be HOST:PORT"),
    "rendezvous settings": (["--rdzv-conf", "timeout"], "--rdzv-conf must be NAME=VALUE"),
    "restarts": (["--max-restarts", "-1"], "--max-restarts must be a count, 0 or more, not '-1'"),
    "restarts in words": (["--max-restarts", "some"], "--max-restarts must be a count"),
    "interval": (["--monitor-interval", "often"], "--monitor-interval must be seconds"),
    "signal": (["--signals-to-handle", "SIGTREM"], "did you mean SIGTERM?"),
    "signal by number": (["--signals-to-handle", "15"], "there is no signal '15'"),
    "signal kill": (["--signals-to-handle", "SIGKILL"], "no process can handle SIGKILL"),
    "no signals": (["--signals-to-handle", ""], "there is no signal ''"),
    "too many CPUs": (["--cpus-per-rank", "9999"], "but this process may use"),
    "no CPUs": (["--cpus-per-rank", "0"], "--cpus-per-rank must be a count of 1 or more, not '0'"),
    "both": (["--cpus-per-rank", "1", "--numa-binding", "node"], "both say where ranks run"),
    "nice": (["--nice", "much"], "--nice must be a number from -20 to 19, not 'much'"),
    "nicer": (["--nice", "20"], "nice must be a number from -20 to 19, not 20"),
    "memory": (["--memory-limit", "4X"], "--memory-limit: '4X' is not a size"),
    "numa in other words": (["--numa-binding", "core"], "must be one of node, socket, exclusive"),
    "logs specs": (["--logs-specs", "nothing"], "there is no entry point 'nothing'"),
    "ranks in words": (["-n", "all"], "or auto, cpu, gpu, xpu, npu, not 'all'"),
    "devices twice": (["--virtual-local-rank", "--devices", "cuda"], "cannot go together"),
    "no config": (["--config", "no-such.toml"], "--config: cannot read 'no-such.toml'"),
    "too many abbreviations": (["--no", "x"], "there is no option '--no'"),
}


@pytest.fixture
def here(tmp_path, monkeypatch):
    write(tmp_path / "good.py", "import os; print('it ran', os.environ['RANK'])")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("case", WRONG)
def test_refused(here, case):
    words, said = WRONG[case]
    done = run(*words, "good.py")
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1), done.stderr
    assert done.stderr.startswith("procession run: error: ")
    assert said in done.stderr


@pytest.mark.parametrize(
    ("variable", "text", "said"),
    [
        ("PET_NNODES", "1:2", "PET_NNODES 1:2: a range is for machines that find each other"),
        ("PET_STANDALONE", "yes", "PET_STANDALONE must be 0 or 1, not 'yes'"),
        ("PET_NPROC_PER_NODE", "x", "PET_NPROC_PER_NODE must be a count"),
        ("PROCESSION_TEE", "9", "PROCESSION_TEE: not a choice of streams: '9'"),
        ("PROCESSION_CONFIG", "no", "PROCESSION_CONFIG: cannot read 'no'"),
        ("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "x", "TORCH_ELASTIC_SHUTDOWN_TIMEOUT must be seconds"),
    ],
)
def test_refused_where_a_variable_says_it(here, variable, text, said):
    done = run("good.py", env={**os.environ, variable: text})
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert said in done.stderr


def test_more_devices_than_are_named(here):
    env = {**os.environ, "CUDA_VISIBLE_DEVICES": "0"}
    done = run("-n", 2, "--virtual-local-rank", "good.py", env=env)
    assert done.returncode == 2
    assert "2 ranks need a device each, but CUDA_VISIBLE_DEVICES='0' names 1" in done.stderr


@pytest.mark.parametrize(
    ("words", "note"),
    [
        (["-r", "0:0,7:3"], "-r/--redirects names rank 7, but the ranks are 0 to 1"),
        (["-t", "2:3,5:1"], "-t/--tee names ranks 2,5, but the ranks are 0 to 1"),
        (["--local-ranks-filter", "0,1,2"], "--local-ranks-filter names rank 2"),
        (["--duplicate-stdout-filters", "a"], "copies nothing: it is for what -t/--tee sends"),
        (["--event-log-handler", "console"], "--event-log-handler has no effect"),
    ],
)
def test_what_torchrun_takes_is_taken_and_said(here, words, note):
    done = run("-n", 2, *words, "good.py")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["[0] it ran 0", "[1] it ran 1"]
    (line,) = done.stderr.splitlines()
    assert line.startswith("procession: ")
    assert note in line


def test_an_empty_filter_shows_all(here):
    assert good("--local-ranks-filter", "", "good.py") == "it ran 0\n"


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["--nnode=1"], "--nnodes"),
        (["--stand"], "--standalone"),
        (["--redirect", "0"], "--redirects"),
        (["--nproc_per_n", "1"], "--nproc-per-node"),
        (["--max-r", "1"], "--max-restarts"),
        (["--master_p", "0"], "--master-port"),
    ],
)
def test_abbreviations_are_answered_with_the_name(here, words, name):
    done = run(*words, "good.py")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"; did you mean {name}?" in done.stderr
