"""Each rank's variables, by kind of device."""

import pytest

from seams.devices import KINDS, Seat
from seams.values import SpecError

CUDA, HIP, ROCR = "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"
MASK, SELECTOR = "ZE_AFFINITY_MASK", "ONEAPI_DEVICE_SELECTOR"
ASCEND, CORES, JAX = "ASCEND_RT_VISIBLE_DEVICES", "NEURON_RT_VISIBLE_CORES", "JAX_LOCAL_DEVICE_IDS"
UUIDS = "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6, GPU-1f9c,MIG-4a51ee0c-e8a3-5e63-a1b4"


def variables(kind, n, inherited=None, **options):
    seats = [Seat(r, n, r, n, inherited or {}, **options) for r in range(n)]
    return [KINDS[kind].environment(seat) for seat in seats]


@pytest.mark.parametrize(
    ("inherited", "dealt"),
    [
        (None, ["0", "1"]),
        ("5,3,1,0", ["5", "3"]),
        (" 4 , 2 ", ["4", "2"]),
        (UUIDS, ["GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", "GPU-1f9c"]),
        ("MIG-GPU-8932/1/0,MIG-GPU-8932/2/0", ["MIG-GPU-8932/1/0", "MIG-GPU-8932/2/0"]),
        ("2,0,-1,3", ["2", "0"]),  # what stands behind a negative number is hidden
    ],
)
def test_each_rank_has_the_token_with_its_number(inherited, dealt):
    found = variables("cuda", 2, {} if inherited is None else {CUDA: inherited})
    assert found == [{CUDA: token, "LOCAL_RANK": "0"} for token in dealt]


INTEL = {
    "CCL_PROCESS_LAUNCHER": "none",
    "CCL_LOCAL_RANK": "1",
    "CCL_LOCAL_SIZE": "2",
    "LOCAL_RANK": "0",
}
NEURON = {
    "NEURON_PJRT_PROCESS_INDEX": "1",
    "NEURON_PJRT_PROCESSES_NUM_DEVICES": "1,1",
    "LOCAL_RANK": "0",
    "LOCAL_WORLD_SIZE": "1",
}
ALONE = {"LOCAL_RANK": "0"}
PLACE = "127.0.0.1:6000"
MEETING = {"JAX_COORDINATOR_ADDRESS": PLACE, "JAX_COORDINATOR_BIND_ADDRESS": PLACE}
OWN_PLACE = {"NEURON_RT_ROOT_COMM_ID": "10.0.0.1:62182"}
HEARS = {"JAX_ENABLE_PREEMPTION_SERVICE": "0"}


@pytest.mark.parametrize(
    ("kind", "inherited", "second"),
    [
        ("rocm", {HIP: "3,1"}, {HIP: "1", **ALONE}),
        ("rocm", {ROCR: "3,GPU-ab"}, {ROCR: "GPU-ab", **ALONE}),
        ("rocm", {CUDA: "2,3"}, {HIP: "3", CUDA: None, **ALONE}),
        ("rocm", {CUDA: "0,1", HIP: "2,3"}, {HIP: "3", CUDA: None, **ALONE}),
        ("rocm", {CUDA: "4,5", ROCR: "4,5"}, {ROCR: "5", CUDA: None, **ALONE}),
        ("intel", {}, {MASK: "1", **INTEL}),
        ("intel", {SELECTOR: "level_zero:*"}, {MASK: "1", SELECTOR: "level_zero:0", **INTEL}),
        ("intel", {SELECTOR: "level_zero:gpu"}, {MASK: "1", SELECTOR: "level_zero:0", **INTEL}),
        ("ascend", {}, {ASCEND: "1", **ALONE}),
        ("ascend", {ASCEND: "6, 4 ,5"}, {ASCEND: "5", **ALONE}),  # in the order that ascends
        ("neuron", {}, {CORES: "1", "NEURON_RT_ROOT_COMM_ID": PLACE, **NEURON}),
        ("neuron", {CORES: "8, 0-2", **OWN_PLACE}, {CORES: "0", **NEURON}),
        ("jax", {}, {JAX: "1", **HEARS, **MEETING}),
        ("jax", {JAX: "2,3", **MEETING, "JAX_ENABLE_PREEMPTION_SERVICE": "1"}, {JAX: "3"}),
    ],
)
def test_what_the_second_of_two_ranks_gets(kind, inherited, second):
    assert variables(kind, 2, inherited, endpoint=PLACE)[1] == second


LISTS = [("cuda", CUDA), ("rocm", HIP), ("rocm", ROCR), ("intel", MASK), ("ascend", ASCEND)]
SELECTORS = ("", "opencl:0", "level_zero:0,1", "0,1", "level_zero:0.1")
NEEDED = "2 ranks need a device each, but "


@pytest.mark.parametrize(
    ("kind", "inherited", "count", "said"),
    [
        *((kind, {name: "0"}, None, f"{NEEDED}{name}='0' names 1") for kind, name in LISTS),
        *(("cuda", {CUDA: t}, None, "hides all") for t in ("", " ", "-1", "NoDevFiles", ",")),
        *(("cuda", {CUDA: t}, None, "same device twice") for t in ("0,1,0", "1, 1", "2,02")),
        ("cuda", {CUDA: "0,,1"}, None, "has a gap"),
        ("cuda", {}, 1, f"{NEEDED}this machine has 1"),
        ("ascend", {}, 0, f"{NEEDED}this machine has none; {ASCEND} can name them"),
        *(("jax", {JAX: t}, None, "is not the number") for t in ("0,x", "0-1", "GPU-1,2")),
        ("ascend", {ASCEND: "0,x"}, None, "is not the number of a device"),
        *(("neuron", {CORES: t}, None, "a list of cores") for t in ("a", "3-1", "0-1-2", "")),
        ("neuron", {CORES: "0-2,1"}, None, "names a core twice"),
        *(("intel", {SELECTOR: t}, None, "dealt out to ranks: use ZE_AFF") for t in SELECTORS),
        ("rocm", {ROCR: "4,5", HIP: "0,1"}, None, f"{ROCR} and {HIP} both filter devices"),
    ],
)
def test_what_is_refused(kind, inherited, count, said):
    with pytest.raises(SpecError) as caught:
        variables(kind, 2, inherited, count=count)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_number_among_all_machines():
    given = KINDS["neuron"].environment(Seat(1, 2, 5, 8, {}))
    assert given["NEURON_PJRT_PROCESS_INDEX"] == "5"
