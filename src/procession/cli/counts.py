"""Numbers of ranks that are given by a word, such as `gpu`: as many as this machine has."""

from __future__ import annotations

import os

from procession.values.errors import SpecError

# The words of torchrun for accelerators: what we call them, and what chooses among them.
ACCELERATORS = {
    "gpu": (("NVIDIA", "AMD"), ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES",
                                "ROCR_VISIBLE_DEVICES")),
    "xpu": (("Intel",), ("ZE_AFFINITY_MASK",)),
    "npu": (("Ascend",), ("ASCEND_RT_VISIBLE_DEVICES",)),
}  # fmt: skip


def count_ranks(text: str, where: str) -> int:
    """Read a word for a count of ranks. where: what to call it in a refusal. Raises SpecError."""
    if text == "cpu":
        return len(os.sched_getaffinity(0))
    if text == "auto":
        found = [count for word in ACCELERATORS if (count := _count(word, where))]
        return found[0] if found else len(os.sched_getaffinity(0))
    if text in ACCELERATORS:
        count = _count(text, where)
        if not count:
            kinds = " and no ".join(ACCELERATORS[text][0])
            raise SpecError(f"{where} {text}: this machine shows no {kinds} device to this process")
        return count
    words = ", ".join(("auto", "cpu", *ACCELERATORS))
    hint = "; for -np write -n" if text == "p" else ""  # -np 4 is -n with the value p
    raise SpecError(f"{where} must be a count of 1 or more, or {words}, not {text!r}{hint}")


def _count(word: str, where: str) -> int:
    from procession.devices.seat import read_devices
    from procession.system import accelerators

    kinds, variables = ACCELERATORS[word]
    there = max((a.count for a in accelerators.find() if a.kind in kinds), default=0)
    for name in variables:
        if there and name in os.environ:
            try:
                return len(read_devices(name, os.environ[name]))
            except SpecError as e:
                if "hides all" in str(e):
                    return 0
                raise SpecError(f"{where} {word}: {e}") from None
    return there
