"""Which process is meant, beyond its pid, which the kernel reuses.

A mark is `<pid>-<start>-<namespace>`: the start in clock ticks since the machine started, and the
number of the namespace of pids, since the pids of a container mean nothing outside of it.
"""

from __future__ import annotations

import os

from procession.system.files import named, process_fields

FILE_NAME = "procession-group"

_own: dict[int, str] = {}  # by pid: a fork is another process
_ours: dict[int, bool] = {}  # by pid: whether /proc shows its namespace


def own_mark() -> str:
    """Give the mark of this process; "" where /proc does not show it."""
    pid = os.getpid()
    mark = _own.get(pid) or mark_of(pid)
    if mark and pid not in _own:  # it is "" if no descriptor was left to look
        _own.clear()
        _own[pid] = mark
    return mark


def marked_file() -> int:
    """Make a memory file whose name has this process's mark; it stays out of what is exec'd.

    A child shows it in /proc while its environment there is still that of this process: in a fork
    always, otherwise until the exec. Raises OSError.
    """
    try:
        return os.memfd_create(f"{FILE_NAME}@{own_mark()}", os.MFD_CLOEXEC)
    except OSError as e:
        raise named("memfd_create", e) from None


def mark_in_file(text: str) -> str:
    """Give the mark in what /proc says of such a file, "" if there is none."""
    _, found, rest = text.partition(f"/memfd:{FILE_NAME}@")
    return rest.split()[0] if found else ""


def proc_is_ours() -> bool:
    """Tell whether /proc is there and shows our namespace of pids, and not one around it.

    In a new namespace of pids (`unshare --pid` without `--mount-proc`), /proc still has the numbers
    of the old one: /proc/<pid> is another process, or none.
    """
    pid = os.getpid()
    if pid not in _ours:
        pids, shown = pids_of("self"), _self()
        if not (pids and shown):  # it is not there, or no descriptor was left to look
            return False
        _ours.clear()
        _ours[pid] = len(pids) == 1 and shown == pid
    return _ours[pid]


def shown_pid() -> int:
    """Give the number that this process has in /proc, which is not always its pid."""
    return _self() or os.getpid()


def _self() -> int:
    try:
        return int(os.readlink("/proc/self"))
    except (OSError, ValueError):
        return 0


def pids_of(name: int | str) -> list[int]:
    """Give the numbers of the process at /proc/`name`: in the namespace of /proc, then further in.

    [] if it is gone, or /proc is not there.
    """
    try:
        with open(f"/proc/{name}/status", "rb", buffering=0) as f:
            for line in f.read().splitlines():
                if line.startswith(b"NSpid:"):
                    return [int(word) for word in line.split()[1:]]
        return [int(name) if isinstance(name, int) else _self()]  # a kernel before Linux 4.1
    except (OSError, ValueError):
        return []


def mark_of(pid: int) -> str:
    """Give the mark of a process; "" if it is gone, a zombie, or hidden."""
    name = pid if proc_is_ours() else "self"
    if name == "self" and pid != os.getpid():
        return ""
    found = start_of(name)
    try:
        return f"{pid}-{found}-{namespace(name)}" if found else ""
    except OSError:
        return ""


def start_of(pid: int | str) -> int:
    """Tell when a process began, in clock ticks since the machine started; 0 if it is not alive."""
    try:
        fields = process_fields(pid)
        return 0 if fields[0] in (b"Z", b"X") else int(fields[19])
    except (OSError, IndexError, ValueError):
        return 0


def namespace(pid: int | str = "self") -> int:
    """Give the number of a process's namespace of pids. Raises OSError."""
    return os.stat(f"/proc/{pid}/ns/pid").st_ino


def pid_of(mark: str) -> int:
    """Give the pid in a mark, 0 if the text is no mark."""
    pid = mark.partition("-")[0]
    return int(pid) if pid.isascii() and pid.isdecimal() else 0


def lives(mark: str) -> bool | None:
    """Tell whether the process with this mark is alive; None if that cannot be seen from here."""
    pid, _, rest = mark.partition("-")
    start, _, where = rest.partition("-")
    if not (pid.isdecimal() and start.isdecimal() and where.isdecimal()):
        return None
    try:
        if int(where) != namespace() or not proc_is_ours():
            return None
    except OSError:
        return None
    return start_of(int(pid)) == int(start)
