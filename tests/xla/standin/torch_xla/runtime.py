import os

from torch_xla import _of_thread, write_down


def global_ordinal():
    """Number the devices of all processes, in the order of processes."""
    write_down("global_ordinal")
    own = int(getattr(_of_thread, "device", "xla:0").removeprefix("xla:"))
    task = os.environ.get("CLOUD_TPU_TASK_ID") or os.environ.get("PJRT_LOCAL_PROCESS_RANK", "0")
    return int(task) * int(os.environ.get("XLA_DEVICES", "1")) + own


def _init_world_size_ordinal():
    write_down("_init_world_size_ordinal")
