"""Which process is meant, beyond its pid, which the kernel reuses.

A mark is `<pid>-<start>-<namespace>`: the start in clock ticks since the machine started, and the
number of the namespace of pids, since the pids of a container mean nothing outside of it.
"""

from __future__ import annotations

import os

from procession.system.processes import look_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket

_own: dict[int, str] = {}  # by pid: a fork is another process


def own_mark() -> str:
    """Give the mark of this process; "" if no descriptor was ever left to look."""
    pid = os.getpid()
    if not _own.get(pid):
        found, where = start_of(pid), namespace()
        _own[pid] = f"{pid}-{found}-{where}" if found and where else ""
    return _own[pid]


def proc_is_ours() -> bool:
    """Tell whether /proc is there and shows our namespace of pids, and not one around it.

    In a new namespace of pids (`unshare --pid` without `--mount-proc`), /proc still has the numbers
    of the old one: /proc/<pid> is another process, or none. Nothing is launched there.
    """
    try:
        return os.readlink("/proc/self") == str(os.getpid())
    except OSError:
        return False


def peer_of(sock: socket) -> tuple[int, int]:
    """Give pid and user of the other end of a socket; the pid is 0 if it is hidden from here."""
    import _socket
    import struct

    pid, uid, _ = struct.unpack("3i", sock.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12))
    return pid, uid


def start_of(pid: int) -> int:
    """Tell when a process began, in clock ticks since the machine started; 0 if it is not alive."""
    seen = look_at(pid)
    return 0 if seen is None else seen.start


def namespace(pid: int | str = "self") -> int:
    """Give the number of a process's namespace of pids; 0 if it is gone, or hidden."""
    try:
        return os.stat(f"/proc/{pid}/ns/pid").st_ino
    except OSError:
        return 0


def pid_of(mark: str) -> int:
    """Give the pid in a mark, 0 if the text is no mark."""
    pid = mark.partition("-")[0]
    return int(pid) if pid.isascii() and pid.isdecimal() else 0


def lives(mark: str) -> bool | None:
    """Tell whether the process with this mark is alive; None if that cannot be seen from here."""
    pid, _, rest = mark.partition("-")
    start, _, where = rest.partition("-")
    is_mark = pid.isdecimal() and start.isdecimal() and where.isdecimal()
    if not is_mark or int(where) != namespace():
        return None
    return start_of(int(pid)) == int(start)
