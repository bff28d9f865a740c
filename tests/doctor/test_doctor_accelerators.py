"""What is found on other machines, and on odd ones."""

import os

import pytest
from doctor_machines import amd, intel, nvidia, pci, tree

from seams.system import accelerators


def only(tmp_path, files, env=None):
    """Give the one kind that is found in a tree."""
    (found,) = accelerators.find(tree(tmp_path, files), env or {})
    return found


def test_a_bare_machine_has_none(tmp_path):
    assert accelerators.find(str(tmp_path), {}) == []


def test_a_root_that_is_not_there_has_none(tmp_path):
    assert accelerators.find(str(tmp_path / "nowhere"), {}) == []


def test_nvidia_with_models(tmp_path):
    files = {**nvidia(0), **nvidia(1), "/dev/nvidia0": "", "/dev/nvidia1": "", "/dev/nvidiactl": ""}
    found = only(tmp_path, files, {"CUDA_VISIBLE_DEVICES": "GPU-1,GPU-2"})
    assert (found.kind, found.count, found.names) == ("NVIDIA", 2, ("NVIDIA H100 80GB HBM3",) * 2)
    assert found.variables == {"CUDA_VISIBLE_DEVICES": "GPU-1,GPU-2"}
    assert (found.notes, found.faults) == ((), ())


def test_nvidia_of_which_a_container_has_one_of_three(tmp_path):
    files = {**nvidia(0), **nvidia(1, "NVIDIA A10"), **nvidia(2), "/dev/nvidia1": ""}
    found = only(tmp_path, files)
    assert (found.count, found.names) == (1, ("NVIDIA A10",))
    assert found.notes == ("the driver knows 3, there are device files for 1",)
    assert found.faults == ()


def test_nvidia_without_device_files(tmp_path):
    found = only(tmp_path, nvidia(0))
    assert found.count == 0
    assert found.faults == ("the driver knows 1, there are device files for 0",)


def test_nvidia_device_files_without_proc(tmp_path):
    found = only(tmp_path, {f"/dev/nvidia{n}": "" for n in (10, 9)})
    assert found.names == ("/dev/nvidia9", "/dev/nvidia10")


@pytest.mark.parametrize("value", ["", "-1", "NoDevFiles"])
def test_a_variable_that_hides_them_all(tmp_path, value):
    found = only(tmp_path, {"/dev/nvidia0": ""}, {"CUDA_VISIBLE_DEVICES": value})
    assert found.notes == ("CUDA_VISIBLE_DEVICES hides them all",)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may open everything")
def test_no_permission(tmp_path):
    root = tree(tmp_path, {"/dev/nvidia0": ""})
    (tmp_path / "dev/nvidia0").chmod(0)
    (found,) = accelerators.find(root, {})
    assert found.faults == ("no permission to open /dev/nvidia0",)


def test_no_permission_told_by_the_kernel(tmp_path, monkeypatch):
    root = tree(tmp_path, {"/dev/davinci0": "", "/dev/davinci1": ""})
    monkeypatch.setattr(os, "access", lambda path, mode: not path.endswith("davinci1"))
    (found,) = accelerators.find(root, {})
    assert found.faults == ("no permission to open /dev/davinci1",)


def test_amd(tmp_path):
    files = {
        **amd(0, 0, "0", gpu_id="0"),  # the processor
        **amd(1, 128),
        **amd(2, 129, "90010"),
        "/dev/kfd": "",
        "/dev/dri/renderD128": "",
        "/dev/dri/renderD129": "",
    }
    found = only(tmp_path, files)
    assert (found.kind, found.count, found.names) == ("AMD", 2, ("gfx942", "gfx90a"))
    assert (found.notes, found.faults) == ((), ())


def test_amd_of_which_a_container_has_one(tmp_path):
    files = {**amd(1, 128), **amd(2, 129), "/dev/kfd": "", "/dev/dri/renderD129": ""}
    found = only(tmp_path, files)
    assert found.count == 1
    assert found.notes == ("the driver knows 2, there are device files for 1",)


def test_amd_without_kfd(tmp_path):
    found = only(tmp_path, {**amd(1, 128), "/dev/dri/renderD128": ""})
    assert found.count == 0
    assert "there is no /dev/kfd" in found.faults


def test_amd_with_a_driver_only(tmp_path):
    found = only(tmp_path, {"/dev/kfd": ""})
    assert (found.count, found.notes) == (0, ("the driver is loaded, but knows no GPU",))


def test_amd_with_two_variables(tmp_path):
    files = {**amd(1, 128), "/dev/kfd": "", "/dev/dri/renderD128": ""}
    found = only(tmp_path, files, {"HIP_VISIBLE_DEVICES": "0", "ROCR_VISIBLE_DEVICES": "1"})
    assert found.notes == ("HIP_VISIBLE_DEVICES chooses among what ROCR_VISIBLE_DEVICES leaves",)


def test_amd_with_garbage_in_its_properties(tmp_path):
    files = {**amd(1, 128, "what"), "/dev/kfd": "", "/dev/dri/renderD128": ""}
    assert only(tmp_path, files).names == ("/dev/dri/renderD128",)


def test_intel_counts_cards_and_not_the_processors_graphics(tmp_path):
    files = {
        **intel(128, "0000:00:02.0", kind="0x030000"),
        **intel(129, "0000:4d:00.0"),
        **intel(130, "0000:03:00.0", vendor="0x10de"),
        **intel(131, "0000:05:00.0", kind="0x120000"),  # not a display
        "/dev/dri/renderD128": "",
        "/dev/dri/renderD129": "",
    }
    found = only(tmp_path, files, {"ZE_AFFINITY_MASK": "0"})
    assert (found.kind, found.count, found.names) == ("Intel", 1, ("/dev/dri/renderD129",))
    assert found.notes == ("the processor's own graphics is not counted",)
    assert found.variables == {"ZE_AFFINITY_MASK": "0"}


def test_intel_without_device_files(tmp_path):
    found = only(tmp_path, intel(128, "0000:4d:00.0"))
    assert (found.count, len(found.faults)) == (0, 1)


def test_ascend(tmp_path):
    files = {"/dev/davinci0": "", "/dev/davinci1": "", "/dev/davinci_manager": ""}
    found = only(tmp_path, files, {"ASCEND_RT_VISIBLE_DEVICES": "0,1"})
    assert (found.kind, found.count) == ("Ascend", 2)


def test_neuron_with_cores(tmp_path):
    tree_ = "/sys/devices/virtual/neuron_device/neuron0"
    files = {f"{tree_}/neuron_core{n}/info": "" for n in range(2)}
    found = only(tmp_path, {**files, "/dev/neuron0": "", "/dev/neuron1": ""})
    assert (found.kind, found.count) == ("Neuron", 2)
    assert found.names == ("/dev/neuron0 with 2 cores", "/dev/neuron1")


def test_tpu_by_accel(tmp_path):
    files = {f"/dev/accel{n}": "" for n in range(4)}
    files |= pci("0000:00:04.0", "0x1ae0", "0x005e")
    found = only(tmp_path, files, {"TPU_WORKER_ID": "0"})
    assert (found.kind, found.count) == ("TPU", 4)


def test_tpu_by_vfio(tmp_path):
    files = {"/dev/vfio/0": "", "/dev/vfio/1": "", "/dev/vfio/2": "", "/dev/vfio/vfio": ""}
    files |= pci("0000:00:04.0", "0x1ae0", "0x0063") | pci("0000:00:05.0", "0x1ae0", "0x0063")
    assert only(tmp_path, files).names == ("/dev/vfio/0", "/dev/vfio/1")


def test_googles_network_card_is_no_tpu(tmp_path):
    files = {"/dev/vfio/0": "", **pci("0000:00:04.0", "0x1ae0", "0x0042")}
    assert accelerators.find(tree(tmp_path, files), {}) == []


def test_another_vendors_directory_of_the_same_name_is_no_tpu(tmp_path):
    assert accelerators.find(tree(tmp_path, {"/dev/accel/accel0": ""}), {}) == []


def test_tpu_by_variables_only(tmp_path):
    found = only(tmp_path, {}, {"PJRT_DEVICE": "TPU"})
    assert found.count == 0
    assert found.faults == ("set up by variables, but there is no chip here",)
    assert accelerators.find(str(tmp_path), {"PJRT_DEVICE": "CPU"}) == []


def test_several_vendors(tmp_path):
    files = {"/dev/nvidia0": "", "/dev/davinci0": ""}
    found = accelerators.find(tree(tmp_path, files), {})
    assert [f.kind for f in found] == ["NVIDIA", "Ascend"]


def test_files_that_are_not_text(tmp_path):
    root = tree(tmp_path, {**nvidia(0), "/dev/nvidia0": ""})
    place = tmp_path / "proc/driver/nvidia/gpus/0000:0a:00.0/information"
    place.write_bytes(b"\xff\xfe\0Model\0:\n\n:::\n")
    (found,) = accelerators.find(root, {})
    assert found.count == 1
