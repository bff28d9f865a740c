"""XRT: each rank's variables, from the environment alone."""

import pytest

from seams.values import SpecError
from seams.xla import xrt

ONE_HOST = {"XRT_TPU_CONFIG": "tpu_worker;0;10.0.0.2:8470"}
FOUR_HOSTS = "|".join(f"c_tpu_worker;{i};10.0.0.{i + 2}:8470" for i in range(4))


def row(ordinal, local, world, worker, **more):
    return {
        "XRT_SHARD_WORLD_SIZE": str(world),
        "XRT_SHARD_ORDINAL": str(ordinal),
        "XRT_SHARD_LOCAL_ORDINAL": str(local),
        "XRT_MULTI_PROCESSING_DEVICE": f"TPU:{ordinal}",
        "XRT_LOCAL_WORKER": worker,
        **more,
    }


GONE = {"XRT_TPU_CONFIG": None}


def test_v2_8():
    assert xrt.environments(ONE_HOST, 8) == [
        row(0, 0, 8, "tpu_worker:0"),
        *(row(r, r, 8, "tpu_worker:0", **GONE) for r in range(1, 8)),
    ]


def test_v3_32_worker_0_has_the_mesh_in_its_first_rank():
    env = {
        "XRT_TPU_CONFIG": FOUR_HOSTS,
        "XRT_LOCAL_WORKER": "c_tpu_worker:0",
        "XRT_SHARD_WORLD_SIZE": "4",
    }
    found = xrt.environments(env, 8)
    assert found[0] == row(0, 0, 32, "c_tpu_worker:0")
    assert found[7] == row(7, 7, 32, "c_tpu_worker:0", **GONE)


def test_v4_16_worker_1():
    env = {
        "XRT_LOCAL_WORKER": "worker:1",
        "XRT_SHARD_WORLD_SIZE": "2",
        "TPU_NUM_DEVICES": "4",
    }
    assert xrt.environments(env, 4) == [row(4 + r, r, 8, "worker:1", **GONE) for r in range(4)]


def test_one_process_of_a_later_worker_is_numbered_by_devices():
    assert xrt.environments({"XRT_LOCAL_WORKER": "w:1"}, 1) == [row(8, 0, 1, "w:1", **GONE)]


def test_the_first_entry_names_the_worker():
    found = xrt.environments({"XRT_TPU_CONFIG": "b;3;h-1.x_y:1|a;0;g:2"}, 2)
    assert {v["XRT_LOCAL_WORKER"] for v in found} == {"b:3"}
    assert [v["XRT_SHARD_ORDINAL"] for v in found] == ["0", "1"]  # as if there were no worker


@pytest.mark.parametrize(
    ("env", "yes"),
    [
        ({}, False),
        ({"TPU_NUM_DEVICES": "8"}, False),
        ({"XRT_TPU_CONFIG": "x"}, True),
        ({"XRT_LOCAL_WORKER": "x:0"}, True),
        ({"XRT_TPU_CONFIG": ""}, True),
        ({"XRT_LOCAL_WORKER": ""}, True),
    ],
)
def test_what_is_a_set_up(env, yes):
    assert xrt.is_set_up(env) is yes


@pytest.mark.parametrize(
    "entry",
    ["", "x", "w;0", "w;0;h:1;x", "w;a;h:1", ";0;h:1", "w;0;h", "w;0;h:", "w;0;:1", "w;-1;h:1"],
)
def test_bad_configurations(entry):
    for config in (entry, f"w;0;h:1|{entry}"):
        with pytest.raises(SpecError) as caught:
            xrt.environments({"XRT_TPU_CONFIG": config}, 8)
        assert str(caught.value) == f"Bad worker syntax: {entry}"


@pytest.mark.parametrize("worker", ["w:", ":1", "w:x", "w:-1", "w:1:2"])
def test_bad_workers(worker):
    with pytest.raises(ValueError, match=f"^Bad worker syntax: {worker}$"):
        xrt.environments({"XRT_LOCAL_WORKER": worker}, 8)


@pytest.mark.parametrize("n", [0, -1, 2, 7, 9])
def test_counts_that_cannot_be(n):
    said = f"^The number of devices must be either 1 or 8, got {n} instead$"
    with pytest.raises(ValueError, match=said):
        xrt.ranks_wanted(ONE_HOST, n)


def test_counts_that_can():
    assert [xrt.ranks_wanted(ONE_HOST, n) for n in (None, 1, 8)] == [8, 1, 8]
    assert xrt.ranks_wanted({"TPU_NUM_DEVICES": "4"}, None) == 4


@pytest.mark.parametrize("name", ["TPU_NUM_DEVICES", "XRT_SHARD_WORLD_SIZE"])
@pytest.mark.parametrize("text", ["x", "0", "-1", "1.5"])
def test_bad_numbers(name, text):
    with pytest.raises(SpecError, match=f"{name} must be a count"):
        xrt.environments({**ONE_HOST, name: text}, 1)
