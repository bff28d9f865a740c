"""PJRT: which device, how many ranks, and each rank's variables."""

import pytest

from seams.devices import make_topology
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
