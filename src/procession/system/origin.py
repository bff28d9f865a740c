"""Where a run was started."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def origin() -> dict[str, str]:
    """Give what says where a run comes from.

    Keys: cwd ("" if the directory is gone), host (the name of this machine), slurm_job (Slurm's
    number of the job in which this process runs, "" for none).
    """
    try:
        cwd = os.getcwd()
    except OSError:
        cwd = ""
    return {
        "cwd": cwd,
        "host": os.uname().nodename,
        "slurm_job": os.environ.get("SLURM_JOB_ID", ""),
    }


def is_in_slurm_job(env: Mapping[str, str]) -> bool:
    """Tell whether Slurm signals this process with its job: not a shell of salloc."""
    return "SLURM_JOB_ID" in env and "SLURMD_NODENAME" in env


def slurm_ids(env: Mapping[str, str]) -> dict[str, str]:
    """Give how Slurm calls the job of this process: its id, and those of an array's task."""
    names = {
        "slurm_job": "SLURM_JOB_ID",
        "slurm_array_job": "SLURM_ARRAY_JOB_ID",
        "slurm_array_task": "SLURM_ARRAY_TASK_ID",
    }
    return {key: env[name] for key, name in names.items() if env.get(name)}
