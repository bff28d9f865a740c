import os

from torch_xla import write_down


def global_ordinal():
    """Number the processes."""
    write_down("global_ordinal")
    task = os.environ.get("CLOUD_TPU_TASK_ID") or os.environ.get("PJRT_LOCAL_PROCESS_RANK", "0")
    return int(task)


def _init_world_size_ordinal():
    write_down("_init_world_size_ordinal")
