"""Each rank's variables, by kind of device."""

import pytest

from seams.devices import devices
from seams.values import SpecError


def variables(kind, n, inherited=None, **options):
    return [
        devices.environment(
            kind, local_rank=r, local_world_size=n, inherited=inherited or {}, **options
        )
        for r in range(n)
    ]


def column(kind, n, name, inherited=None, **options):
    """Give one variable of every rank; ranks that do not have it are an error."""
    return [v[name] for v in variables(kind, n, inherited, **options)]


UUIDS = "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6, GPU-1f9c,MIG-4a51ee0c-e8a3-5e63-a1b4"


class TestCuda:
    NAME = "CUDA_VISIBLE_DEVICES"

    @pytest.mark.parametrize(
        ("inherited", "dealt"),
        [
            (None, ["0", "1"]),
            ("5,3", ["5", "3"]),
            ("5,3,1,0", ["5", "3"]),
            (" 4 , 2 ", ["4", "2"]),
            (UUIDS, ["GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", "GPU-1f9c"]),
            ("MIG-GPU-8932/1/0,MIG-GPU-8932/2/0", ["MIG-GPU-8932/1/0", "MIG-GPU-8932/2/0"]),
            ("2,0,-1,3", ["2", "0"]),  # what stands behind a negative number is hidden
        ],
    )
    def test_each_rank_has_the_token_with_its_number(self, inherited, dealt):
        given = {} if inherited is None else {self.NAME: inherited}
        found = variables("cuda", 2, given)
        assert found == [{self.NAME: token, "LOCAL_RANK": "0"} for token in dealt]


class TestRocm:
    HIP, ROCR, CUDA = "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"

    def test_hip_stays_hip_and_rocr_stays_rocr(self):
        assert variables("rocm", 2, {self.HIP: "3,1"})[1] == {self.HIP: "1", "LOCAL_RANK": "0"}
        assert variables("rocm", 2, {self.ROCR: "3,GPU-ab"})[1] == {
            self.ROCR: "GPU-ab",
            "LOCAL_RANK": "0",
        }

    def test_both_are_two_filters_and_become_one(self):
        inherited = {self.ROCR: "4,5,6,7", self.HIP: "3,1"}
        assert variables("rocm", 2, inherited) == [
            {self.ROCR: "7", self.HIP: None, "LOCAL_RANK": "0"},
            {self.ROCR: "5", self.HIP: None, "LOCAL_RANK": "0"},
        ]

    def test_cuda_names_devices_for_hip_and_is_taken_away(self):
        assert variables("rocm", 1, {self.CUDA: "2,3"}) == [
            {self.HIP: "2", self.CUDA: None, "LOCAL_RANK": "0"}
        ]
        given = {self.CUDA: "0", self.HIP: "2"}
        assert variables("rocm", 1, given) == [{self.HIP: "2", self.CUDA: None, "LOCAL_RANK": "0"}]


class TestIntel:
    MASK, SELECTOR = "ZE_AFFINITY_MASK", "ONEAPI_DEVICE_SELECTOR"

    def test_nothing_inherited(self):
        assert variables("intel", 2)[1] == {
            self.MASK: "1",
            "CCL_PROCESS_LAUNCHER": "none",
            "CCL_LOCAL_RANK": "1",
            "CCL_LOCAL_SIZE": "2",
            "LOCAL_RANK": "0",
        }

    def test_the_selector_where_it_is_inherited(self):
        found = variables("intel", 2, {self.SELECTOR: "level_zero:3,1"})
        assert [v[self.SELECTOR] for v in found] == ["level_zero:3", "level_zero:1"]
        assert all(self.MASK not in v for v in found)

    @pytest.mark.parametrize("every", ["level_zero:*", "level_zero:gpu"])
    def test_a_selector_of_all_leaves_it_to_the_mask(self, every):
        found = variables("intel", 2, {self.SELECTOR: every})
        assert [v[self.MASK] for v in found] == ["0", "1"]
        assert {v[self.SELECTOR] for v in found} == {"level_zero:0"}

    def test_both_are_two_filters(self):
        inherited = {self.MASK: "4,5,6", self.SELECTOR: "level_zero:2,0"}
        found = variables("intel", 2, inherited)
        assert [(v[self.MASK], v[self.SELECTOR]) for v in found] == [
            ("6", "level_zero:0"),
            ("4", "level_zero:0"),
        ]


class TestAscend:
    NAME = "ASCEND_RT_VISIBLE_DEVICES"

    def test_one_each_ascending_without_spaces(self):
        assert variables("ascend", 1) == [{self.NAME: "0", "LOCAL_RANK": "0"}]
        assert column("ascend", 3, self.NAME, {self.NAME: "6, 4 ,5"}) == ["4", "5", "6"]


class TestNeuron:
    NAME = "NEURON_RT_VISIBLE_CORES"

    def test_a_core_and_a_place_for_each_rank(self):
        assert variables("neuron", 2, endpoint="127.0.0.1:6000")[1] == {
            self.NAME: "1",
            "NEURON_RT_ROOT_COMM_ID": "127.0.0.1:6000",
            "NEURON_PJRT_PROCESS_INDEX": "1",
            "NEURON_PJRT_PROCESSES_NUM_DEVICES": "1,1",
            "LOCAL_RANK": "0",
            "LOCAL_WORLD_SIZE": "1",
        }

    def test_ranges_of_cores(self):
        assert column("neuron", 4, self.NAME, {self.NAME: "8, 0-2"}) == ["8", "0", "1", "2"]

    def test_a_meeting_point_that_is_set_stays(self):
        given = {"NEURON_RT_ROOT_COMM_ID": "10.0.0.1:62182"}
        assert "NEURON_RT_ROOT_COMM_ID" not in variables("neuron", 1, given, endpoint="x:1")[0]


class TestJax:
    def test_a_device_each_and_no_deaf_ears(self):
        assert variables("jax", 2, endpoint="127.0.0.1:6000")[1] == {
            "JAX_LOCAL_DEVICE_IDS": "1",
            "JAX_ENABLE_PREEMPTION_SERVICE": "0",
            "JAX_COORDINATOR_ADDRESS": "127.0.0.1:6000",
            "JAX_COORDINATOR_BIND_ADDRESS": "127.0.0.1:6000",
        }

    def test_what_is_set_stays(self):
        given = {"JAX_LOCAL_DEVICE_IDS": "2,3", "JAX_ENABLE_PREEMPTION_SERVICE": "1"}
        assert variables("jax", 2, given)[1] == {"JAX_LOCAL_DEVICE_IDS": "3"}


LISTS = [
    ("cuda", "CUDA_VISIBLE_DEVICES"),
    ("rocm", "HIP_VISIBLE_DEVICES"),
    ("rocm", "ROCR_VISIBLE_DEVICES"),
    ("intel", "ZE_AFFINITY_MASK"),
    ("ascend", "ASCEND_RT_VISIBLE_DEVICES"),
    ("jax", "JAX_LOCAL_DEVICE_IDS"),
]


def refused(kind, n=2, inherited=None, **options):
    with pytest.raises(SpecError) as caught:
        variables(kind, n, inherited, **options)
    text = str(caught.value)
    assert text
    assert "\n" not in text
    return text


@pytest.mark.parametrize(("kind", "name"), LISTS)
class TestBadLists:
    def test_too_short(self, kind, name):
        said = f"3 ranks need a device each, but {name}='0,1' names 2"
        assert refused(kind, 3, {name: "0,1"}) == said

    @pytest.mark.parametrize("text", ["", " ", "-1", "NoDevFiles", ","])
    def test_empty(self, kind, name, text):
        assert refused(kind, 1, {name: text}) == f"{name}={text!r} hides all devices"

    @pytest.mark.parametrize("text", ["0,1,0", "1, 1", "2,02"])
    def test_named_twice(self, kind, name, text):
        assert refused(kind, 1, {name: text}).startswith(f"{name}={text!r} names ")


@pytest.mark.parametrize(
    ("kind", "name"),
    [("cuda", "CUDA"), ("rocm", "HIP"), ("intel", "ZE_AFF"), ("ascend", "ASCEND_RT")],
)
def test_more_ranks_than_devices_of_the_machine(kind, name):
    said = "2 ranks need a device each, but this machine has 1"
    assert refused(kind, 2, count=1).startswith(said)
    assert name in refused(kind, 1, count=0)
    assert "this machine has none" in refused(kind, 1, count=0)


@pytest.mark.parametrize("text", ["0,x", "0-1", "GPU-1,2"])
@pytest.mark.parametrize("name", ["ASCEND_RT_VISIBLE_DEVICES", "JAX_LOCAL_DEVICE_IDS"])
def test_kinds_that_know_numbers_only(name, text):
    kind = "jax" if name.startswith("JAX") else "ascend"
    assert "is not the number of a device" in refused(kind, 1, {name: text})


@pytest.mark.parametrize("text", ["", "opencl:0", "level_zero:0;opencl:1", "0,1", "level_zero:0.1"])
def test_selectors_that_cannot_be_dealt_out(text):
    said = refused("intel", 1, {"ONEAPI_DEVICE_SELECTOR": text})
    assert "level_zero:0,1" in said
    assert "ZE_AFFINITY_MASK" in said


def test_a_second_filter_that_names_what_the_first_does_not_leave():
    given = {"ROCR_VISIBLE_DEVICES": "4,5", "HIP_VISIBLE_DEVICES": "0,2"}
    assert "leaves 2" in refused("rocm", 2, given)
    given = {"ZE_AFFINITY_MASK": "4", "ONEAPI_DEVICE_SELECTOR": "level_zero:1"}
    assert "leaves 1" in refused("intel", 1, given)
