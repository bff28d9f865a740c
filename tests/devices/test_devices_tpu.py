"""TPU: topologies, and PJRT's variables for them."""

import pytest

from seams.devices import (
    Topology,
    devices,
    make_topology,
    topology_from_metadata,
    topology_from_variables,
)
from seams.values import SpecError


def variables(topology, n, inherited=None):
    return [
        devices.environment(
            "tpu", local_rank=r, local_world_size=n, inherited=inherited or {}, topology=topology
        )
        for r in range(n)
    ]


def made(kind, worker=0, hosts=(), bounds=None):
    return make_topology(kind, bounds, str(worker), list(hosts))


def expected(rank, n, *, bounds, task, addresses):
    return {
        "PJRT_DEVICE": "TPU",
        "PJRT_LOCAL_PROCESS_RANK": str(rank),
        "PJRT_LOCAL_PROCESS_COUNT": str(n),
        "TPU_VISIBLE_CHIPS": str(rank),
        "TPU_CHIPS_PER_PROCESS_BOUNDS": "1,1,1",
        "TPU_PROCESS_BOUNDS": bounds,
        "CLOUD_TPU_TASK_ID": str(task),
        "TPU_PROCESS_PORT": str(8476 + rank),
        "TPU_PROCESS_ADDRESSES": ",".join(addresses),
    }


class TestGolden:
    def test_v3_32_worker_3(self):
        hosts = ["10.0.0.4", "10.0.0.2", "10.0.0.9", "10.0.0.1"]
        addresses = [f"{h}:{p}" for h in hosts for p in (8476, 8477, 8478, 8479)]
        assert len(addresses) == 16
        assert variables(made("v3-32", 3, hosts), 4) == [
            expected(r, 4, bounds="4,4,1", task=12 + r, addresses=addresses) for r in range(4)
        ]

    def test_v4_16_worker_1(self):
        topology = made("v4-16", 1, ["10.130.0.31", "10.130.0.30"], ((1, 1, 2), (2, 2, 1)))
        addresses = [
            *("10.130.0.31:8476", "10.130.0.31:8477", "10.130.0.31:8478", "10.130.0.31:8479"),
            *("10.130.0.30:8476", "10.130.0.30:8477", "10.130.0.30:8478", "10.130.0.30:8479"),
        ]
        assert variables(topology, 4) == [
            expected(r, 4, bounds="2,2,2", task=4 + r, addresses=addresses) for r in range(4)
        ]

    def test_the_seventh_generation_counts_cores(self):
        found = variables(made("tpu7x-8", bounds=((1, 1, 1), (2, 2, 1))), 4)
        assert {v["TPU_PROCESS_BOUNDS"] for v in found} == {"2,2,1,2"}

    def test_one_process(self):
        assert variables(None, 1) == [
            {
                "PJRT_DEVICE": "TPU",
                "PJRT_LOCAL_PROCESS_COUNT": "1",
                "TPU_VISIBLE_CHIPS": "0",
                "TPU_CHIPS_PER_PROCESS_BOUNDS": "1,1,1",
                "TPU_PROCESS_BOUNDS": "1,1,1",
            }
        ]


def test_what_is_inherited_stays():
    inherited = {"TPU_PROCESS_PORT": "9000", "TPU_VISIBLE_CHIPS": "3", "PJRT_DEVICE": "TPU"}
    for found in variables(made("v4-8"), 4, inherited):
        assert not inherited.keys() & found.keys()
        assert found["TPU_PROCESS_BOUNDS"] == "2,2,1"


def test_inherited_bounds_make_the_ranks_fewer():
    inherited = {"TPU_PROCESS_BOUNDS": "1,2,1"}
    found = variables(made("v4-8"), 2, inherited)
    assert [v["PJRT_LOCAL_PROCESS_COUNT"] for v in found] == ["2", "2"]
    with pytest.raises(SpecError, match=r"runs 1 rank or 2, one per chip, not 4"):
        variables(made("v4-8"), 4, inherited)


@pytest.mark.parametrize("n", [2, 3, 5, 8])
def test_a_host_runs_one_rank_or_one_per_chip(n):
    with pytest.raises(SpecError, match=f"v4-8 runs 1 rank or 4, one per chip, not {n}"):
        variables(made("v4-8"), n)


class TestShapes:
    @pytest.mark.parametrize(
        ("kind", "hosts", "chips", "per_host"),
        [
            ("v2-8", 1, (2, 2, 1), 4),
            ("v2-32", 4, (4, 4, 1), 4),
            ("v4-8", 1, (2, 2, 1), 4),
            ("v4-16", 2, (2, 2, 2), 4),
            ("v5litepod-8", 1, (2, 4, 1), 8),
            ("v5litepod-8", 2, (2, 4, 1), 4),
            ("v5litepod-16", 4, (4, 4, 1), 4),
            ("v6e-8", 1, (2, 4, 1), 8),
        ],
    )
    def test_by_type(self, kind, hosts, chips, per_host):
        topology = made(kind, hosts=[f"h{i}" for i in range(hosts)])
        assert (topology.chips, topology.chips_per_host) == (chips, per_host)

    def test_hosts_that_tell_are_believed_from_the_fourth_generation_on(self):
        bounds = ((1, 1, 1), (1, 2, 1))
        assert made("v4-8", bounds=bounds).chips == (1, 2, 1)
        assert made("v3-8", bounds=bounds).chips == (2, 2, 1)

    @pytest.mark.parametrize(
        "kind", ["", "v4", "gpu-8", "v-8", "v4-", "4-8", "v4-8-1", "v\uff14-8"]
    )
    def test_no_types(self, kind):
        with pytest.raises(SpecError, match="is not a type of TPU"):
            made(kind, bounds=((1, 1, 1), (2, 2, 1)))


class TestVariables:
    def test_type_worker_and_hosts_are_enough(self):
        told = {
            "TPU_ACCELERATOR_TYPE": "v4-16",
            "TPU_WORKER_ID": "1",
            "TPU_WORKER_HOSTNAMES": "a, b",
        }
        assert topology_from_variables(told) == Topology("v4-16", (2, 2, 2), 1, ("a", "b"))

    @pytest.mark.parametrize(
        "names",
        [
            ("TPU_HOST_BOUNDS", "TPU_CHIPS_PER_HOST_BOUNDS"),
            ("TPU_PROCESS_BOUNDS", "TPU_CHIPS_PER_PROCESS_BOUNDS"),
        ],
    )
    def test_bounds(self, names):
        told = {"TPU_ACCELERATOR_TYPE": "v5p-16", names[0]: "1,1,2", names[1]: "2, 2, 1"}
        assert topology_from_variables(told).chips == (2, 2, 2)

    @pytest.mark.parametrize("text", ["2,2", "2,2,1,1", "2,x,1", "0,2,1", "-1,2,2", "2;2;1"])
    def test_bad_bounds(self, text):
        told = {
            "TPU_ACCELERATOR_TYPE": "v5p-16",
            "TPU_HOST_BOUNDS": text,
            "TPU_CHIPS_PER_HOST_BOUNDS": "2,2,1",
        }
        with pytest.raises(SpecError, match="TPU_HOST_BOUNDS="):
            topology_from_variables(told)

    def test_nothing_is_told(self):
        with pytest.raises(SpecError, match="TPU_ACCELERATOR_TYPE is not set"):
            topology_from_variables({})
        with pytest.raises(SpecError, match="TPU_ACCELERATOR_TYPE is not set"):
            variables(None, 4)


class TestMetadata:
    TPU_ENV = """
ACCELERATOR_TYPE: 'v4-16'
CHIPS_PER_HOST_BOUNDS: '2,2,1'
HOST_BOUNDS: '1,1,2'
RUNTIME: 'gcr.io/images/tpu:stable'
WORKER_ID: '1'
"""

    @pytest.mark.parametrize("endpoints", ["w0:77:10.0.0.5,w1:78:10.0.0.6", "10.0.0.5,10.0.0.6"])
    def test_both_forms_of_endpoints(self, endpoints):
        told = topology_from_metadata(self.TPU_ENV, endpoints)
        assert told == Topology("v4-16", (2, 2, 2), 1, ("10.0.0.5", "10.0.0.6"))

    def test_an_old_generation_tells_no_bounds(self):
        told = topology_from_metadata('ACCELERATOR_TYPE: "v3-8"\nWORKER_ID: "0"', "w:1:10.0.0.5")
        assert told == Topology("v3-8", (2, 2, 1))
