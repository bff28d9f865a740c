"""`devices=` of `run` and `start`, and `--devices` of the command."""

import os

import pytest

import procession
from support import run_procession

CUDA = "CUDA_VISIBLE_DEVICES"


def seen():
    return os.environ[CUDA], os.environ["LOCAL_RANK"], os.environ["RANK"]


def test_run(monkeypatch):
    monkeypatch.setenv(CUDA, "GPU-aa,MIG-bb")
    values = procession.run(seen, nproc=2, devices="cuda", timeout=20)
    assert values == [("GPU-aa", "0", "0"), ("MIG-bb", "0", "1")]


def test_env_names_the_devices_and_has_the_last_word():
    values = procession.run(seen, nproc=2, devices="cuda", env={CUDA: "7,3"}, timeout=20)
    assert values == [("7", "0", "0"), ("3", "0", "1")]
    env = {0: {CUDA: "5"}, 1: {CUDA: "4", "LOCAL_RANK": "9"}}
    values = procession.run(seen, nproc=2, devices="cuda", env=env, timeout=20)
    assert values == [("5", "0", "0"), ("4", "9", "1")]


def command(*words, visible="0,1"):
    return run_procession("run", "--prefix", "", *words, env={**os.environ, CUDA: visible})


def test_the_command():
    done = command("-n", 2, "--devices", "cuda", "sh", "-c", f"echo ${CUDA} $LOCAL_RANK")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["0 0", "1 0"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-n", 3, "--devices", "cuda"), "3 ranks need a device each"),
        (("-n", 2, "--devices", "gpu"), "devices must be one of auto, cuda"),
    ],
)
def test_the_command_refuses(words, said):
    done = command(*words, "true")
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
