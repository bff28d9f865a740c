"""`torch_xla.distributed.xla_multiprocessing` and `torch_xla.launch`, as a group of ranks.

    import procession.xla as xmp

    xmp.spawn(train, args=(flags,))
    xmp.launch(train, args=(flags,))

Nothing here imports torch_xla in the launcher, and nothing in a rank does so before its environment
is complete. Where torch_xla is not installed, ranks run without it.
"""

from __future__ import annotations

from procession.xla.spawning import launch, spawn
from procession.xla.wrappers import MpModelWrapper, MpSerialExecutor

__all__ = ["MpModelWrapper", "MpSerialExecutor", "launch", "spawn"]
