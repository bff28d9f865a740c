"""Which accelerators are found on other machines, and on odd ones."""

import os

import pytest
from doctor_machines import amd, intel, nvidia, pci, tree

from seams.system import accelerators

H100 = "NVIDIA H100 80GB HBM3"
CARD = {"/dev/kfd": "", "/dev/dri/renderD128": "", **amd(1, 128)}


def dev(*names):
    return {f"/dev/{name}": "" for name in names}


@pytest.mark.parametrize(
    ("files", "kind", "names", "known"),
    [
        ({**nvidia(0), **nvidia(1), **dev("nvidia0", "nvidia1", "nvidiactl")}, "NVIDIA",
         [H100, H100], 2),
        # A container that has one of three.
        ({**nvidia(0), **nvidia(1, "NVIDIA A10"), **nvidia(2), **dev("nvidia1")}, "NVIDIA",
         ["NVIDIA A10"], 3),
        (nvidia(0), "NVIDIA", [], 1),
        (dev("nvidia10", "nvidia9"), "NVIDIA", ["/dev/nvidia9", "/dev/nvidia10"], 2),
        # The first node is the processor.
        ({**amd(0, 0, "0", gpu_id="0"), **CARD, **amd(2, 129, "90010"), **dev("dri/renderD129")},
         "AMD", ["/dev/dri/renderD128", "/dev/dri/renderD129"], 2),
        ({**CARD, **amd(1, 128, "what"), **amd(2, 129)}, "AMD", ["/dev/dri/renderD128"], 2),
        ({**amd(1, 128), **dev("dri/renderD128")}, "AMD", [], 1),
        # Cards, not the processor's graphics, another maker's, or what is no display.
        ({**intel(128, "0000:00:02.0", kind="0x030000"), **intel(129, "0000:4d:00.0"),
          **intel(130, "0000:03:00.0", vendor="0x10de"),
          **intel(131, "0000:05:00.0", kind="0x120000"), **dev("dri/renderD128", "dri/renderD129")},
         "Intel", ["/dev/dri/renderD129"], 1),
        (dev("davinci0", "davinci_manager"), "Ascend", ["/dev/davinci0"], 1),
        (dev("neuron0", "neuron1"), "Neuron", ["/dev/neuron0", "/dev/neuron1"], 2),
        ({**dev("accel0", "accel1"), **pci("0000:00:04.0", "0x1ae0", "0x005e")}, "TPU",
         ["/dev/accel0", "/dev/accel1"], 2),
        ({**dev("vfio/0", "vfio/1", "vfio/vfio"), **pci("0000:00:04.0", "0x1ae0", "0x0063")},
         "TPU", ["/dev/vfio/0"], 1),
        (pci("0000:00:04.0", "0x1ae0", "0x0063"), "TPU", [], 1),
    ],
)  # fmt: skip
def test_one_kind(tmp_path, files, kind, names, known):
    (found,) = accelerators.find(tree(tmp_path, files))
    assert (found.kind, [d.name for d in found.devices], found.known) == (kind, names, known)
    assert (found.count, bool(found.faults)) == (len(names), not names)


def test_several_vendors_and_a_file_that_may_not_be_opened(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: not path.endswith("davinci1"))
    root = tree(tmp_path, dev("nvidia0", "davinci0", "davinci1"))
    found = {f.kind: f.faults for f in accelerators.find(root)}
    assert found == {"NVIDIA": (), "Ascend": ("no permission to open /dev/davinci1",)}
