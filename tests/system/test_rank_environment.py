import os
import socket

import pytest
from rankwork import environment

import procession
from support import METHODS

TORCH = {
    "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE",
    "ROLE_RANK", "ROLE_NAME", "ROLE_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
    "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_MAX_RESTARTS",
    "TORCHELASTIC_USE_AGENT_STORE", "TORCHELASTIC_ERROR_FILE", "TORCH_NCCL_ASYNC_ERROR_HANDLING",
}  # fmt: skip


@pytest.mark.parametrize("method", METHODS)
def test_torchruns_variables(method):
    envs = procession.run(environment, nproc=3, start_method=method)
    for rank, env in enumerate(envs):
        assert env.keys() >= TORCH
        assert [env[n] for n in ("RANK", "LOCAL_RANK", "ROLE_RANK")] == [str(rank)] * 3
        assert [env[n] for n in ("WORLD_SIZE", "LOCAL_WORLD_SIZE", "ROLE_WORLD_SIZE")] == ["3"] * 3
        assert (env["GROUP_RANK"], env["GROUP_WORLD_SIZE"], env["ROLE_NAME"]) == (
            "0",
            "1",
            "default",
        )
        assert env["MASTER_ADDR"] == "127.0.0.1"
        assert env["TORCHELASTIC_RESTART_COUNT"] == env["TORCHELASTIC_MAX_RESTARTS"] == "0"
        assert env["TORCHELASTIC_USE_AGENT_STORE"] == "False"
        assert env["TORCH_NCCL_ASYNC_ERROR_HANDLING"] == "1"
        assert int(env["OMP_NUM_THREADS"]) == max(1, len(os.sched_getaffinity(0)) // 3)
        assert env["PYTHONUNBUFFERED"] == "1"
    assert len({env["TORCHELASTIC_ERROR_FILE"] for env in envs}) == 3
    assert len({env["TORCHELASTIC_RUN_ID"] for env in envs}) == 1
    assert len({env["MASTER_PORT"] for env in envs}) == 1


def test_threads_are_left_alone_where_the_user_chose(monkeypatch):
    assert "OMP_NUM_THREADS" not in procession.run(environment, nproc=1)[0]
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    assert procession.run(environment, nproc=2)[1]["OMP_NUM_THREADS"] == "7"
    by_argument = procession.run(environment, nproc=2, env={"OMP_NUM_THREADS": "5"})
    assert by_argument[0]["OMP_NUM_THREADS"] == "5"


def test_port_is_free_for_rank_0():
    def meet():
        address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        if os.environ["RANK"] == "0":
            with socket.create_server(address) as server:
                for _ in range(2):
                    server.accept()[0].close()
            return "served"
        for _ in range(20000):
            try:
                socket.create_connection(address).close()
                return "met"
            except ConnectionRefusedError:
                pass
        return "alone"

    assert procession.run(meet, nproc=3) == ["served", "met", "met"]


@pytest.mark.parametrize("method", METHODS[:2])
def test_an_interpreter_that_is_to_stay_after_its_program_does_not(method, monkeypatch):
    monkeypatch.setenv("PYTHONINSPECT", "1")
    found = procession.run(os.environ.get, args=("PYTHONINSPECT",), nproc=2, start_method=method)
    assert found == ["1", "1"]
