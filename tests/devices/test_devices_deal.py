"""Devices of this machine, dealt out to the ranks of a group."""

import sys
from pathlib import Path

import pytest

from seams.devices import devices
from seams.values import Node, SpecError, make_spec

sys.path.insert(0, str(Path(__file__).parent.parent / "doctor"))
from doctor_machines import amd, intel, nvidia, pci, tree

CUDA = "CUDA_VISIBLE_DEVICES"


def spec(nproc=2, env=None):
    return make_spec(["true"], nproc=nproc, env=env)


def dealt(kind, nproc=2, env=None, inherited=None, root="/"):
    return [
        dict(e)
        for e in devices.deal(spec(nproc, env), kind, inherited=inherited or {}, root=root).env
    ]


def with_gpus(path, count):
    files = {}
    for number in range(count):
        files |= {f"/dev/nvidia{number}": None, **nvidia(number)}
    return tree(path, files)


def test_ranks_get_what_the_machine_has(tmp_path):
    root = with_gpus(tmp_path, 4)
    assert dealt("cuda", 3, root=root) == [{CUDA: str(r), "LOCAL_RANK": "0"} for r in range(3)]
    with pytest.raises(SpecError, match="5 ranks need a device each, but this machine has 4"):
        dealt("cuda", 5, root=root)


def test_a_rank_with_a_launcher_of_its_own_gets_its_share(tmp_path):
    root = with_gpus(tmp_path, 4)
    node = Node(0, 1, "127.0.0.1", 29500, number=2, world=4, local=2, local_world=4)
    alone = make_spec(["true"], nproc=1, node=node)
    (env,) = devices.deal(alone, "cuda", inherited={}, root=root).env
    assert env[CUDA] == "2"
    (env,) = devices.deal_virtual(alone, inherited={CUDA: "4,5,6,7"}).env
    assert env[CUDA] == "6"


def test_a_machine_without_any(tmp_path):
    with pytest.raises(SpecError, match=f"this machine has none; {CUDA} can name them"):
        dealt("cuda", root=str(tmp_path))
    assert dealt("cuda", 1, inherited={CUDA: "7"}, root=str(tmp_path))[0][CUDA] == "7"


def test_devices_for_all_ranks_are_dealt_out():
    for env in ({CUDA: "GPU-a,GPU-b"}, {r: {CUDA: "GPU-a,GPU-b"} for r in range(2)}):
        assert [e[CUDA] for e in dealt("cuda", env=env)] == ["GPU-a", "GPU-b"]
    # What is taken away is not inherited.
    with pytest.raises(SpecError, match="this machine has none"):
        dealt("cuda", env={CUDA: None}, inherited={CUDA: "0,1"}, root="/nowhere")


@pytest.mark.parametrize("kind", ["neuron", "jax"])
def test_all_ranks_meet_at_one_place(kind, tmp_path):
    name = "NEURON_RT_ROOT_COMM_ID" if kind == "neuron" else "JAX_COORDINATOR_ADDRESS"
    inherited = {"NEURON_RT_VISIBLE_CORES": "0-1"}
    places = {e[name] for e in dealt(kind, inherited=inherited, root=str(tmp_path))}
    assert len(places) == 1
    host, _, port = places.pop().partition(":")
    assert host == "127.0.0.1"
    assert 1024 < int(port) < 65536


def test_a_tpu_by_its_variables():
    told = {"TPU_SKIP_MDS_QUERY": "1", "TPU_ACCELERATOR_TYPE": "v4-8"}
    assert [e["TPU_VISIBLE_CHIPS"] for e in dealt("tpu", 4, inherited=told)] == list("0123")
    assert dealt("tpu", 1)[0]["TPU_CHIPS_PER_PROCESS_BOUNDS"] == "1,1,1"


@pytest.mark.parametrize(
    ("kind", "files"),
    [
        ("cuda", {"/dev/nvidia0": None, **nvidia(0)}),
        ("rocm", {"/dev/kfd": None, "/dev/dri/renderD128": None, **amd(1, 128)}),
        ("intel", {"/dev/dri/renderD128": None, **intel(128, "0000:03:00.0")}),
        ("ascend", {"/dev/davinci0": None}),
        ("neuron", {"/dev/neuron0": None}),
        ("tpu", {"/dev/accel0": None, **pci("0000:00:04.0", "0x1ae0", "0x005e")}),
    ],
)
def test_each_kind_is_detected(tmp_path, kind, files):
    assert devices.detect(tree(tmp_path, files)) == kind


def test_auto_is_what_is_found_if_it_is_one_kind(tmp_path):
    root = with_gpus(tmp_path / "one", 1)
    assert dealt("auto", 1, root=root) == [{CUDA: "0", "LOCAL_RANK": "0"}]
    two = tree(tmp_path / "two", {"/dev/davinci0": None, "/dev/neuron0": None})
    with pytest.raises(SpecError, match="Ascend and Neuron: say which"):
        devices.detect(two)
