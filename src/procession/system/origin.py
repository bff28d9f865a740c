"""Where a run was started: at which terminal (a session of processes), and in which directory.

A session has the mark of its first process as its name, in most cases that of a login shell: the
kernel reuses numbers of terminals, but marks are unique. The first process may have ended while
others of its session go on (a runner of jobs that forked and exited); the start in the mark is 0
then. Or it is in a namespace of pids around ours (a container's command, `unshare --pid`), where
the kernel gives 0 as its number; the start in the mark is the number of the controlling terminal
then. A session without a terminal (a job of CI, cron) has no name. A detached launcher has a new
session, and gets the name of the one that it comes from.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from procession.system.files import process_fields
from procession.system.identity import namespace, start_of

_come_from = ""  # the session from which this process was started, if it has left that


def own_session() -> str:
    """Give the session that this process belongs to, or comes from; "" if it is not visible."""
    return _come_from or session_of("self")


def session_of(pid: int | str) -> str:
    """Give the session that a process belongs to; "" if it has no terminal, or is not visible."""
    try:
        _, _, _, first, terminal, *_ = map(bytes.decode, process_fields(pid))
        if terminal == "0":
            return ""
        start = start_of(int(first)) if first != "0" else terminal  # 0: of a namespace around ours
        return f"{first}-{start}-{namespace()}"
    except (OSError, ValueError):
        return ""


def directory_of(pid: int) -> str:
    """Give the current directory of a process; "" if it is gone, or not visible."""
    try:
        return os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return ""


def same_session(one: str, other: str) -> bool:
    """Tell whether two names of sessions mean the same one.

    If the first process had ended when either name was made, the numbers are compared: the kernel
    does not reuse one before every process has left the session.
    """
    if not one or not other:
        return False
    number, start, inside = _parts(one)
    same_number, same_start, same_inside = _parts(other)
    if (number, inside) != (same_number, same_inside):
        return False
    return start == same_start or (number != "0" and "0" in (start, same_start))


def _parts(session: str) -> tuple[str, str, str]:
    number, _, rest = session.partition("-")
    start, _, inside = rest.partition("-")
    return number, start, inside


def come_from(session: str) -> None:
    """Note that this process was started from another session, which it has left."""
    global _come_from
    _come_from = session


def origin() -> dict[str, str]:
    """Give what says where a run comes from; it is part of the index of runs.

    Keys: session, cwd ("" if the directory is gone), host (the name of this machine), slurm_job
    (Slurm's number of the job in which this process runs, "" for none).
    """
    try:
        cwd = os.getcwd()
    except OSError:
        cwd = ""
    return {
        "session": own_session(),
        "cwd": cwd,
        "host": os.uname().nodename,
        "slurm_job": os.environ.get("SLURM_JOB_ID", ""),
    }


def slurm_ids(env: Mapping[str, str]) -> dict[str, str]:
    """Give how Slurm calls the job of this process: its id, and those of an array's task."""
    names = {
        "slurm_job": "SLURM_JOB_ID",
        "slurm_array_job": "SLURM_ARRAY_JOB_ID",
        "slurm_array_task": "SLURM_ARRAY_TASK_ID",
    }
    return {key: env[name] for key, name in names.items() if env.get(name)}
