"""TPU: topologies, and PJRT's variables for them."""

import pytest

from seams.devices import (
    KINDS,
    Seat,
    Topology,
    make_topology,
    topology_from_metadata,
    topology_from_variables,
)
from seams.values import SpecError


def variables(topology, n, inherited=None):
    seats = [Seat(r, n, r, n, inherited or {}, topology=topology) for r in range(n)]
    return [KINDS["tpu"].environment(seat) for seat in seats]


def made(kind, worker=0, hosts=(), bounds=None):
    return make_topology(kind, bounds, str(worker), list(hosts))


def addresses(*hosts):
    return ",".join(f"{h}:{p}" for h in hosts for p in (8476, 8477, 8478, 8479))


MANY = ("10.0.0.4", "10.0.0.2", "10.0.0.9", "10.0.0.1")
TWO = ("10.130.0.31", "10.130.0.30")


@pytest.mark.parametrize(
    ("topology", "bounds", "task", "places"),
    [
        (made("v4-32", 3, MANY), "2,2,4", 12, addresses(*MANY)),
        (made("v4-16", 1, TWO, ((1, 1, 2), (2, 2, 1))), "2,2,2", 4, addresses(*TWO)),
        # The seventh generation counts cores.
        (made("tpu7x-8", 0, (), ((1, 1, 1), (2, 2, 1))), "2,2,1,2", 0, addresses("localhost")),
    ],
)
def test_a_rank_for_each_chip(topology, bounds, task, places):
    assert variables(topology, 4) == [
        {
            "PJRT_DEVICE": "TPU",
            "PJRT_LOCAL_PROCESS_RANK": str(rank),
            "PJRT_LOCAL_PROCESS_COUNT": "4",
            "TPU_VISIBLE_CHIPS": str(rank),
            "TPU_CHIPS_PER_PROCESS_BOUNDS": "1,1,1",
            "TPU_PROCESS_BOUNDS": bounds,
            "CLOUD_TPU_TASK_ID": str(task + rank),
            "TPU_PROCESS_PORT": str(8476 + rank),
            "TPU_PROCESS_ADDRESSES": places,
        }
        for rank in range(4)
    ]


def test_what_is_inherited_stays():
    inherited = {"TPU_PROCESS_PORT": "9000", "TPU_VISIBLE_CHIPS": "3", "PJRT_DEVICE": "TPU"}
    for found in variables(made("v4-8"), 4, inherited):
        assert not inherited.keys() & found.keys()
        assert found["TPU_PROCESS_BOUNDS"] == "2,2,1"


@pytest.mark.parametrize(("n", "bounds", "there"), [(2, None, 4), (8, None, 4), (4, "1,2,1", 2)])
def test_a_host_runs_one_rank_or_one_per_chip(n, bounds, there):
    inherited = {"TPU_PROCESS_BOUNDS": bounds} if bounds else {}
    with pytest.raises(SpecError, match=f"v4-8 runs 1 rank or {there}, one per chip, not {n}"):
        variables(made("v4-8"), n, inherited)
    assert len(variables(made("v4-8"), there, inherited)) == there


@pytest.mark.parametrize(
    ("kind", "hosts", "bounds", "chips", "per_host"),
    [
        ("v4-8", 1, None, (2, 2, 1), 4),
        ("v4-16", 2, None, (2, 2, 2), 4),
        ("v5litepod-8", 1, None, (2, 4, 1), 8),
        ("v5litepod-8", 2, None, (2, 4, 1), 4),
        ("v6e-8", 1, None, (2, 4, 1), 8),
        # Hosts that tell are believed.
        ("v4-8", 1, ((1, 1, 1), (1, 2, 1)), (1, 2, 1), 2),
        ("v3-8", 1, ((1, 1, 1), (2, 2, 1)), (2, 2, 1), 4),
    ],
)
def test_shapes(kind, hosts, bounds, chips, per_host):
    topology = made(kind, hosts=[f"h{i}" for i in range(hosts)], bounds=bounds)
    assert (topology.chips, topology.chips_per_host) == (chips, per_host)


HOST_BOUNDS = {"TPU_HOST_BOUNDS": "1,1,2", "TPU_CHIPS_PER_HOST_BOUNDS": "2, 2, 1"}
PROCESS_BOUNDS = {"TPU_PROCESS_BOUNDS": "1,1,2", "TPU_CHIPS_PER_PROCESS_BOUNDS": "2,2,1"}


@pytest.mark.parametrize(
    ("kind", "more", "found"),
    [
        (
            *("v4-16", {"TPU_WORKER_ID": "1", "TPU_WORKER_HOSTNAMES": "a, b"}),
            Topology("v4-16", (2, 2, 2), 1, ("a", "b")),
        ),
        ("v5p-16", HOST_BOUNDS, Topology("v5p-16", (2, 2, 2))),
        ("v5p-16", PROCESS_BOUNDS, Topology("v5p-16", (2, 2, 2))),
    ],
)
def test_a_topology_by_variables(kind, more, found):
    assert topology_from_variables({"TPU_ACCELERATOR_TYPE": kind, **more}) == found


TPU_ENV = """
ACCELERATOR_TYPE: 'v4-16'
CHIPS_PER_HOST_BOUNDS: '2,2,1'
HOST_BOUNDS: '1,1,2'
RUNTIME: 'gcr.io/images/tpu:stable'
WORKER_ID: '1'
"""
PLAIN = 'ACCELERATOR_TYPE: "v4-8"\nWORKER_ID: "0"'  # which tells no bounds


@pytest.mark.parametrize(
    ("told", "endpoints", "found"),
    [
        (TPU_ENV, "w:7:a,w:8:b", Topology("v4-16", (2, 2, 2), 1, ("a", "b"))),
        (TPU_ENV, "a,b", Topology("v4-16", (2, 2, 2), 1, ("a", "b"))),
        (PLAIN, "w:1:a", Topology("v4-8", (2, 2, 1))),
    ],
)
def test_a_topology_by_metadata(told, endpoints, found):
    assert topology_from_metadata(told, endpoints) == found


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({}, "TPU_ACCELERATOR_TYPE is not set"),
        *(
            ({"TPU_ACCELERATOR_TYPE": kind}, "is not a type of TPU")
            for kind in ("v4", "gpu-8", "v-8", "v4-", "4-8", "v4-8-1", "v\uff14-8")
        ),
        ({"TPU_ACCELERATOR_TYPE": "v5p-16"}, "the shape of a TPU v5p-16 is not known"),
        *(
            ({"TPU_ACCELERATOR_TYPE": "v5p-16", **HOST_BOUNDS, "TPU_HOST_BOUNDS": text}, "counts")
            for text in ("2,2", "2,2,1,1", "2,x,1", "0,2,1", "-1,2,2", "2;2;1")
        ),
        ({"TPU_ACCELERATOR_TYPE": "v4-8", "TPU_WORKER_ID": "x"}, "TPU worker 'x'"),
        ({"TPU_ACCELERATOR_TYPE": "v4-8", "TPU_WORKER_HOSTNAMES": "a,b,c"}, "cannot share evenly"),
    ],
)
def test_no_topologies(told, said):
    with pytest.raises(SpecError, match=said):
        topology_from_variables(told)
    if not told:
        with pytest.raises(SpecError, match=said):
            variables(None, 4)
