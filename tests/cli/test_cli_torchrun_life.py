"""torchrun's options for the life of a group: restarts, signals, time-outs, counts of ranks."""

import os
import signal

import pytest
from commandline import Watched, good, run

from seams.cli import counts
from seams.system import Accelerators, accelerators
from seams.values import SpecError
from support import write


def test_restarts(tmp_path):
    source = """
        import os
        k, most = (os.environ[f"TORCHELASTIC_{n}"] for n in ("RESTART_COUNT", "MAX_RESTARTS"))
        print("attempt", k, "of", most, flush=True)
        if k != "2":
            raise SystemExit(3)
    """
    script = write(tmp_path / "again.py", source)
    out = good("--max-restarts", 2, script)
    assert out == "attempt 0 of 2\nattempt 1 of 2\nattempt 2 of 2\n"
    done = run("--max_restarts=1", script)
    assert done.returncode == 3
    assert "this was attempt 1, after 1 restart" in done.stderr


HANDLE = "trap 'echo got $1; exit 0' $1; echo here; while :; do sleep 0.1; done"


def handler(name):
    return ["sh", "-c", HANDLE, "sh", name]


def test_signals_that_are_handled():
    words = ["--signals-to-handle", "SIGTERM, SIGUSR1", *handler("USR1")]
    with Watched("run", *words) as watched:
        watched.shows(b"here")
        watched.signal(signal.SIGUSR1)
        assert watched.end() == 128 + signal.SIGUSR1
    assert b"got USR1" in watched.out
    assert b"was stopped by SIGUSR1" in watched.err


SLEEP = "echo here; exec sleep 60"  # a shell that waits for it could miss a signal


def test_signals_that_are_not_handled_have_their_own_effect():
    with Watched("run", "--signals-to-handle", "SIGUSR1", "sh", "-c", SLEEP) as it:
        it.shows(b"here")
        it.signal(signal.SIGTERM)
        assert it.end() == -signal.SIGTERM
    with Watched("run", "--signals-to-handle", "SIGUSR1", "sh", "-c", SLEEP) as it:
        it.shows(b"here")
        it.signal(signal.SIGINT)  # it always ends the group in order
        assert it.end() == 130


def test_ranks_are_told_which_signals_are_handled():
    name = "TORCHELASTIC_SIGNALS_TO_HANDLE"
    assert good("printenv", name) == "SIGTERM,SIGINT,SIGHUP,SIGQUIT\n"
    assert good("--signals-to-handle", "SIGUSR2", "printenv", name) == "SIGUSR2\n"


@pytest.mark.parametrize("how", ["option", "variable"])
def test_the_time_until_the_kill(how):
    words = ["--shutdown-timeout", "0.2"] if how == "option" else []
    env = {**os.environ, "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "0.2" if how == "variable" else "50"}
    stubborn = ["sh", "-c", "trap '' TERM; echo here; while :; do sleep 0.1; done"]
    with Watched("run", *words, *stubborn, env=env) as watched:
        watched.shows(b"here")
        watched.signal(signal.SIGTERM)
        assert watched.end(20) == 143


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_start_methods(tmp_path, method):
    script = write(tmp_path / "hello.py", "print('hello')")
    assert good("--start-method", method, script) == "hello\n"


def test_run_path_takes_any_file_for_python(tmp_path):
    script = write(tmp_path / "hello", "import sys; print('hello', sys.argv[1:])")
    script.chmod(0o755)
    assert good("--run-path", script, "a") == "hello ['a']\n"
    done = run("--run-path", tmp_path / "gone")
    assert done.returncode == 2
    assert "there is no script" in done.stderr


def test_virtual_local_rank():
    see = ["sh", "-c", "echo $RANK $LOCAL_RANK $CUDA_VISIBLE_DEVICES"]
    env = {**os.environ, "CUDA_VISIBLE_DEVICES": " 7, GPU-5f,3"}
    out = run("-n", 2, "--virtual-local-rank", *see, env=env).stdout
    assert sorted(out.splitlines()) == ["[0] 0 0 7", "[1] 1 0 GPU-5f"]


def test_virtual_local_rank_with_devices_of_hip():
    see = ["sh", "-c", "echo $CUDA_VISIBLE_DEVICES/$HIP_VISIBLE_DEVICES"]
    env = {**os.environ, "CUDA_VISIBLE_DEVICES": "0,1", "HIP_VISIBLE_DEVICES": "6,GPU-5f"}
    out = run("-n", 2, "--virtual-local-rank", *see, env=env).stdout
    assert sorted(out.splitlines()) == ["[0] 6/6", "[1] GPU-5f/GPU-5f"]
    done = run("-n", 3, "--virtual-local-rank", *see, env=env)
    assert done.returncode == 2
    assert "HIP_VISIBLE_DEVICES='6,GPU-5f' names 2" in done.stderr
    out = run("-n", 2, "--virtual-local-rank", *see, env={**env, "HIP_VISIBLE_DEVICES": ""}).stdout
    assert sorted(out.splitlines()) == ["[0] 0/", "[1] 1/"]


# -- counts

NVIDIA = Accelerators("NVIDIA", 4)


@pytest.fixture
def machine(monkeypatch):
    """Let a machine have these accelerators, and these variables."""

    def make(*found, **variables):
        monkeypatch.setattr(accelerators, "find", lambda: list(found))
        for _, names in counts.ACCELERATORS.values():
            for name in names:
                monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return make


def count(text):
    return counts.count_ranks(text, "-n")


CORES = len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("text", "found", "variables", "expected"),
    [
        ("cpu", [NVIDIA], {}, CORES),
        ("gpu", [NVIDIA], {}, 4),
        ("gpu", [Accelerators("AMD", 2)], {}, 2),
        ("gpu", [NVIDIA], {"CUDA_VISIBLE_DEVICES": "GPU-1,GPU-3"}, 2),
        ("xpu", [Accelerators("Intel", 6)], {}, 6),
        ("npu", [Accelerators("Ascend", 8)], {"ASCEND_RT_VISIBLE_DEVICES": "1"}, 1),
        ("auto", [], {}, CORES),
        ("auto", [NVIDIA], {}, 4),
        ("auto", [Accelerators("Intel", 6)], {}, 6),
        ("auto", [NVIDIA], {"CUDA_VISIBLE_DEVICES": ""}, CORES),
        ("auto", [], {"CUDA_VISIBLE_DEVICES": "0,1"}, CORES),
    ],
)
def test_counts(machine, text, found, variables, expected):
    machine(*found, **variables)
    assert count(text) == expected


@pytest.mark.parametrize(
    ("text", "found", "variables", "said"),
    [
        ("gpu", [], {}, "-n gpu: this machine shows no NVIDIA and no AMD device"),
        ("gpu", [NVIDIA], {"CUDA_VISIBLE_DEVICES": "-1"}, "shows no NVIDIA"),
        ("gpu", [NVIDIA], {"CUDA_VISIBLE_DEVICES": "1,1"}, "-n gpu: CUDA_VISIBLE_DEVICES='1,1'"),
        ("xpu", [NVIDIA], {}, "-n xpu: this machine shows no Intel device"),
        ("0", [], {}, "-n must be a count of 1 or more, or auto, cpu, gpu, xpu, npu, not '0'"),
        ("GPU", [NVIDIA], {}, "not 'GPU'"),
    ],
)
def test_wrong_counts(machine, text, found, variables, said):
    machine(*found, **variables)
    with pytest.raises(SpecError) as refused:
        count(text)
    assert said in str(refused.value)
