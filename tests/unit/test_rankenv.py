import dataclasses

import pytest

from seams.values import Node, given_run_id, rank_environment

NODE = Node(port=29500, run_id="job_1", attempt=2, restarts=3)


@pytest.mark.parametrize(
    ("cores", "nproc", "threads"),
    [(16, 1, None), (16, 2, "8"), (16, 3, "5"), (2, 8, "1"), (1, 2, "1")],
)
def test_cores_are_shared_out(cores, nproc, threads):
    env = rank_environment(NODE, 0, nproc, "default", {}, cores)
    assert env.get("OMP_NUM_THREADS") == threads


def test_a_group_within_a_rank_has_a_name_of_its_own():
    outer = {**rank_environment(NODE, 0, 2, "default", {}), "PROCESSION_RUN": "job_1"}
    assert given_run_id(outer) == ""
    assert given_run_id({"TORCHELASTIC_RUN_ID": "mine"}) == "mine"
    assert given_run_id({**outer, "TORCHELASTIC_RUN_ID": "mine"}) == "mine"


def test_a_node_among_others():
    node = Node(rank=2, count=3, address="host", port=1234, role="actor", run_id="big")
    env = rank_environment(node, 1, 4, "default", {"TORCHELASTIC_RUN_ID": "around"})
    told = {name: env[name] for name in env if name.startswith(("RANK", "ROLE", "GROUP", "WORLD"))}
    assert told == {
        "RANK": "9",
        "WORLD_SIZE": "12",
        "GROUP_RANK": "2",
        "GROUP_WORLD_SIZE": "3",
        "ROLE_RANK": "9",
        "ROLE_NAME": "actor",
        "ROLE_WORLD_SIZE": "12",
    }
    assert (env["LOCAL_RANK"], env["LOCAL_WORLD_SIZE"]) == ("1", "4")
    assert env["TORCHELASTIC_RUN_ID"] == "big"


def test_ranks_that_have_launchers_of_their_own():
    node = Node(1, 2, "head", 29500, number=5, world=7, local=1, local_world=3)
    env = rank_environment(node, 0, 1, "default", {}, 16)
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "ROLE_RANK")
    assert [env[name] for name in names] == ["5", "7", "1", "3", "1", "5"]
    assert env["OMP_NUM_THREADS"] == "5"  # 16 cores, of which three ranks have a share each
    known = dataclasses.replace(node, threads=9)
    assert rank_environment(known, 0, 1, "", {}, 16)["OMP_NUM_THREADS"] == "9"
