"""torchrun's options for the life of a group: restarts, signals, time-outs, counts of ranks."""

import os
import signal

import pytest
from commandline import Watched, good, run

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


HANDLE = "trap 'echo got USR1; exit 0' USR1; echo here; while :; do sleep 0.1; done"


def test_signals_that_are_handled():
    told = ["printenv", "TORCHELASTIC_SIGNALS_TO_HANDLE"]
    assert good(*told) == "SIGTERM,SIGINT,SIGHUP,SIGQUIT\n"
    assert good("--signals-to-handle", "SIGUSR2", *told) == "SIGUSR2\n"
    words = ["--signals-to-handle", "SIGTERM, SIGUSR1", "sh", "-c", HANDLE]
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


@pytest.mark.parametrize("how", ["option", "variable"])
def test_the_time_until_the_kill(how):
    words = ["--shutdown-timeout", "0.2"] if how == "option" else []
    env = {**os.environ, "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "0.2" if how == "variable" else "50"}
    stubborn = ["sh", "-c", "trap '' TERM; echo here; while :; do sleep 0.1; done"]
    with Watched("run", *words, *stubborn, env=env) as watched:
        watched.shows(b"here")
        watched.signal(signal.SIGTERM)
        assert watched.end(20) == 143


def test_virtual_local_rank():
    see = ["sh", "-c", "echo $RANK $LOCAL_RANK $CUDA_VISIBLE_DEVICES"]
    env = {**os.environ, "CUDA_VISIBLE_DEVICES": " 7, GPU-5f,3"}
    out = run("-n", 2, "--virtual-local-rank", *see, env=env).stdout
    assert sorted(out.splitlines()) == ["[0] 0 0 7", "[1] 1 0 GPU-5f"]
    see = ["sh", "-c", "echo $CUDA_VISIBLE_DEVICES/$HIP_VISIBLE_DEVICES"]
    env = {**os.environ, "CUDA_VISIBLE_DEVICES": "0,1", "HIP_VISIBLE_DEVICES": "6,GPU-5f"}
    out = run("-n", 2, "--virtual-local-rank", *see, env=env).stdout
    assert sorted(out.splitlines()) == ["[0] 6/6", "[1] GPU-5f/GPU-5f"]
    out = run("-n", 2, "--virtual-local-rank", *see, env={**env, "HIP_VISIBLE_DEVICES": ""}).stdout
    assert sorted(out.splitlines()) == ["[0] 0/", "[1] 1/"]
