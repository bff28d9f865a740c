"""Which accelerators are found on other machines, and on odd ones."""

import os

import pytest
from doctor_machines import amd, intel, nvidia, pci, tree

from seams.system import accelerators

H100 = "NVIDIA H100 80GB HBM3"
CARD = {"/dev/kfd": "", "/dev/dri/renderD128": "", **amd(1, 128)}
CORES = {f"/sys/devices/virtual/neuron_device/neuron0/neuron_core{n}/info": "" for n in range(2)}
OF_1 = "the driver knows {}, there are device files for {}"


def dev(*names):
    return {f"/dev/{name}": "" for name in names}


@pytest.mark.parametrize(
    ("files", "env", "kind", "names", "notes", "faults"),
    [
        ({**nvidia(0), **nvidia(1), **dev("nvidia0", "nvidia1", "nvidiactl")}, {}, "NVIDIA",
         (H100, H100), (), ()),
        # A container that has one of three.
        ({**nvidia(0), **nvidia(1, "NVIDIA A10"), **nvidia(2), **dev("nvidia1")}, {}, "NVIDIA",
         ("NVIDIA A10",), (OF_1.format(3, 1),), ()),
        (nvidia(0), {}, "NVIDIA", (), (), (OF_1.format(1, 0),)),
        (dev("nvidia10", "nvidia9"), {}, "NVIDIA", ("/dev/nvidia9", "/dev/nvidia10"), (), ()),
        *((dev("nvidia0"), {"CUDA_VISIBLE_DEVICES": value}, "NVIDIA", ("/dev/nvidia0",),
           ("CUDA_VISIBLE_DEVICES hides them all",), ()) for value in ("", "-1", "NoDevFiles")),
        # The first node is the processor.
        ({**amd(0, 0, "0", gpu_id="0"), **CARD, **amd(2, 129, "90010"), **dev("dri/renderD129")},
         {}, "AMD", ("gfx942", "gfx90a"), (), ()),
        ({**CARD, **amd(2, 129)}, {}, "AMD", ("gfx942",), (OF_1.format(2, 1),), ()),
        (dev("kfd"), {}, "AMD", (), ("the driver is loaded, but knows no GPU",), ()),
        (CARD, {"HIP_VISIBLE_DEVICES": "0", "ROCR_VISIBLE_DEVICES": "1"}, "AMD", ("gfx942",),
         ("HIP_VISIBLE_DEVICES chooses among what ROCR_VISIBLE_DEVICES leaves",), ()),
        ({**CARD, **amd(1, 128, "what")}, {}, "AMD", ("/dev/dri/renderD128",), (), ()),
        # Cards, not the processor's graphics, another maker's, or what is no display.
        ({**intel(128, "0000:00:02.0", kind="0x030000"), **intel(129, "0000:4d:00.0"),
          **intel(130, "0000:03:00.0", vendor="0x10de"),
          **intel(131, "0000:05:00.0", kind="0x120000"), **dev("dri/renderD128", "dri/renderD129")},
         {}, "Intel", ("/dev/dri/renderD129",), ("the processor's own graphics is not counted",),
         ()),
        (intel(128, "0000:4d:00.0"), {}, "Intel", (), (), (OF_1.format(1, 0),)),
        (dev("davinci0", "davinci_manager"), {}, "Ascend", ("/dev/davinci0",), (), ()),
        ({**CORES, **dev("neuron0", "neuron1")}, {}, "Neuron",
         ("/dev/neuron0 with 2 cores", "/dev/neuron1"), (), ()),
        ({**dev("accel0", "accel1"), **pci("0000:00:04.0", "0x1ae0", "0x005e")}, {}, "TPU",
         ("/dev/accel0", "/dev/accel1"), (), ()),
        ({**dev("vfio/0", "vfio/1", "vfio/vfio"), **pci("0000:00:04.0", "0x1ae0", "0x0063")}, {},
         "TPU", ("/dev/vfio/0",), (), ()),
        ({}, {"PJRT_DEVICE": "TPU"}, "TPU", (), (),
         ("set up by variables, but there is no chip here",)),
    ],
)  # fmt: skip
def test_one_kind(tmp_path, files, env, kind, names, notes, faults):
    (found,) = accelerators.find(tree(tmp_path, files), env)
    assert (found.kind, found.names, found.notes, found.faults) == (kind, names, notes, faults)
    assert (found.count, found.variables) == (len(names), env)


def test_several_vendors_and_a_file_that_may_not_be_opened(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: not path.endswith("davinci1"))
    root = tree(tmp_path, dev("nvidia0", "davinci0", "davinci1"))
    found = {f.kind: f.faults for f in accelerators.find(root, {})}
    assert found == {"NVIDIA": (), "Ascend": ("no permission to open /dev/davinci1",)}
