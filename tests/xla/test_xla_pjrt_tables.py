"""PJRT: which device, how many ranks, and each rank's variables."""

import pytest

from seams.devices import make_topology
from seams.values import SpecError
from seams.xla import pjrt


def ranks(kind, env=None, topology=None, endpoint="localhost:6000"):
    return pjrt.ranks(kind, env or {}, topology, endpoint)


class TestDevice:
    @pytest.mark.parametrize(
        ("env", "found", "kind"),
        [
            ({}, [], None),
            ({"PJRT_DEVICE": "TPU"}, [], "TPU"),
            ({"PJRT_DEVICE": "CPU"}, ["TPU"], "CPU"),
            ({"PJRT_DEVICE": "CUDA"}, [], "CUDA"),
            ({"PJRT_DEVICE": "NEURON"}, [], "NEURON"),
            ({"PJRT_DEVICE": "TPU_C_API"}, [], "TPU"),
            ({"PJRT_DEVICE": ""}, ["TPU"], "TPU"),
            ({}, ["NVIDIA", "TPU"], "TPU"),
            ({}, ["Neuron"], "NEURON"),
            ({}, ["NVIDIA"], None),
            ({"PJRT_SELECT_DEFAULT_DEVICE": "0"}, ["TPU"], None),
        ],
    )
    def test_variables_come_before_what_is_found(self, env, found, kind):
        assert pjrt.device_type(env, found) == kind


class TestRanks:
    def test_tpu_v4_16(self):
        topology = make_topology("v4-16", None, "1", ["10.0.0.1", "10.0.0.2"])
        told = ranks("TPU", {"PJRT_DEVICE": "TPU"}, topology)
        assert (told.first, told.world_size, len(told.env)) == (4, 8, 4)
        assert [v["CLOUD_TPU_TASK_ID"] for v in told.env] == list("4567")
        assert {v["TPU_PROCESS_BOUNDS"] for v in told.env} == {"2,2,2"}
        assert len(told.env[0]["TPU_PROCESS_ADDRESSES"].split(",")) == 8
        assert not any("LOCAL_RANK" in v for v in told.env)

    def test_tpu_on_one_host(self):
        told = ranks("TPU", {}, make_topology("v5litepod-8", None, "0", []))
        assert (told.first, told.world_size, len(told.env)) == (0, 8, 8)
        assert {v["PJRT_DEVICE"] for v in told.env} == {"TPU"}

    def test_tpu_made_smaller(self):
        env = {"TPU_PROCESS_BOUNDS": "1,1,1", "TPU_VISIBLE_CHIPS": "0"}
        told = ranks("TPU", env, make_topology("v4-16", None, "1", ["a", "b"]))
        assert (told.first, told.world_size) == (0, 1)
        assert told.env == [
            {
                "PJRT_DEVICE": "TPU",
                "PJRT_LOCAL_PROCESS_RANK": "0",
                "PJRT_LOCAL_PROCESS_COUNT": "1",
                "TPU_CHIPS_PER_PROCESS_BOUNDS": "1,1,1",
            }
        ]

    @pytest.mark.parametrize("kind", ["CPU", "CUDA", "NEURON", "OTHER"])
    def test_one_process_where_nothing_else_is_said(self, kind):
        told = ranks(kind)
        assert (told.first, told.world_size, len(told.env)) == (0, 1, 1)
        assert told.env[0]["PJRT_DEVICE"] == kind
        assert told.env[0]["PJRT_LOCAL_PROCESS_RANK"] == "0"
        assert told.env[0]["PJRT_LOCAL_PROCESS_COUNT"] == "1"

    def test_neuron(self):
        env = {"PJRT_DEVICE": "NEURON", "NEURONCORE_NUM_DEVICES": "2"}
        assert ranks("NEURON", env).env[1] == {
            "NEURON_RT_VISIBLE_CORES": "1",
            "NEURON_RT_ROOT_COMM_ID": "localhost:6000",
            "NEURON_PJRT_PROCESS_INDEX": "1",
            "NEURON_PJRT_PROCESSES_NUM_DEVICES": "1,1",
            "PJRT_LOCAL_PROCESS_RANK": "1",
            "PJRT_LOCAL_PROCESS_COUNT": "2",
        }

    def test_cuda(self):
        assert ranks("CUDA", {"GPU_NUM_DEVICES": "2"}).env[1] == {
            "PJRT_DEVICE": "CUDA",
            "LOCAL_WORLD_SIZE": "2",
            "PJRT_LOCAL_PROCESS_RANK": "1",
            "PJRT_LOCAL_PROCESS_COUNT": "2",
        }

    @pytest.mark.parametrize("text", ["0", "x", "", "-1"])
    def test_bad_counts(self, text):
        with pytest.raises(SpecError, match="NEURONCORE_NUM_DEVICES must be a count"):
            ranks("NEURON", {"NEURONCORE_NUM_DEVICES": text})


class TestSingle:
    def test_tpu(self):
        assert pjrt.single("TPU", {}) == {
            "PJRT_DEVICE": "TPU",
            "PJRT_LOCAL_PROCESS_COUNT": "1",
            "TPU_VISIBLE_CHIPS": "0",
            "TPU_CHIPS_PER_PROCESS_BOUNDS": "1,1,1",
            "TPU_PROCESS_BOUNDS": "1,1,1",
        }

    def test_cpu(self):
        assert pjrt.single("CPU", {"PJRT_DEVICE": "CPU"}) == {"PJRT_LOCAL_PROCESS_COUNT": "1"}


@pytest.mark.parametrize("n", [0, 2, 4, 8, -1])
def test_counts_that_cannot_be(n):
    with pytest.raises(ValueError, match=rf"^Unsupported nprocs \({n}\)\. "):
        pjrt.refuse_count(n)


def test_counts_that_can():
    assert pjrt.refuse_count(1) is None
    assert pjrt.refuse_count(None) is None
