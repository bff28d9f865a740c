"""A namespace of pids of its own, for a process to be the first one in. Standard library only.

Theory of operation. When the first process of a namespace ends, however it ends, the kernel kills
all others in it before it lets anybody see that end. Nothing can leave a namespace.

`part` makes the namespace for the children of this process; the next fork is its first process. An
ordinary user needs a namespace of users for that, in which he has his own number and no other one.
`enter` is for the first process: it gets a /proc that shows its own namespace, in a namespace of
mounts that nobody else sees, and gives up what the namespace of users has allowed it.

`Outside` tells the numbers that processes in it have outside: what /proc showed before is still
open, and says them of a pidfd.
"""

from __future__ import annotations

import ctypes
import errno
import os

from procession.system.identity import pids_of

NEWNS, NEWUSER, NEWPID = 0x00020000, 0x10000000, 0x20000000  # CLONE_*
NOSUID_NODEV_NOEXEC = 2 | 4 | 8  # MS_*
REC_SLAVE = 0x4000 | 0x80000  # MS_REC | MS_SLAVE
CAPABILITIES_VERSION_3 = 0x20080522
OVER_PROC = b"/proc/sys/fs/binfmt_misc"  # which may be missing in a /proc
SPARE = 2  # descriptors that are kept to look with

_libc = ctypes.CDLL(None, use_errno=True)


def part() -> bool:
    """Make a namespace of pids for this process's children, which has one thread.

    Gives whether a namespace of users was needed. Raises OSError.
    """
    if not _libc.unshare(NEWPID):
        return False
    if ctypes.get_errno() != errno.EPERM or os.geteuid() == 0:
        raise _failed("unshare(CLONE_NEWPID)")
    user, group = os.geteuid(), os.getegid()
    if {*os.getresuid()} != {user} or {*os.getresgid()} != {group}:
        raise OSError(errno.EPERM, "its real and effective users or groups differ")
    if _libc.unshare(NEWUSER | NEWPID):
        raise _failed("unshare(CLONE_NEWUSER | CLONE_NEWPID)")
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{user} {user} 1")
    _write("/proc/self/gid_map", f"{group} {group} 1")
    return True


def enter(*, of_user: bool) -> None:
    """Give the first process its own /proc. of_user: what `part` has given. Raises OSError."""
    if not of_user:
        _check_proc()
    if _libc.unshare(NEWNS):
        raise _failed("unshare(CLONE_NEWNS)")
    if _libc.mount(b"none", b"/", None, ctypes.c_ulong(REC_SLAVE), None):
        raise _failed("mount(MS_SLAVE)")
    if _libc.mount(b"proc", b"/proc", b"proc", ctypes.c_ulong(NOSUID_NODEV_NOEXEC), None):
        raise _failed("mount(proc)")
    if of_user:
        _give_up_capabilities()


def _check_proc() -> None:
    """Refuse where a new /proc would show what is hidden now; the kernel lets root do it."""
    with open("/proc/self/mountinfo", "rb", buffering=0) as f:
        places = [line.split()[4] for line in f.read().splitlines()]
    over = [each for each in places if each.startswith(b"/proc/") and each != OVER_PROC]
    if over:
        text = f"{over[0].decode(errors='replace')} is mounted over, which a new /proc would undo"
        raise OSError(errno.EPERM, text)


def _give_up_capabilities() -> None:
    header = (ctypes.c_uint32 * 2)(CAPABILITIES_VERSION_3, 0)
    if _libc.capset(header, (ctypes.c_uint32 * 6)()):
        raise _failed("capset")


def _write(path: str, text: str) -> None:
    try:
        with open(path, "wb", buffering=0) as f:
            f.write(text.encode())
    except OSError as e:
        raise OSError(e.errno, f"{path}: {e.strerror}") from None


def _failed(what: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"{what}: {os.strerror(number)}")


class Outside:
    """What /proc shows outside of the namespace. To be made before `enter`; then `look` is used."""

    def __init__(self) -> None:
        """Raises OSError."""
        self.depth = len(pids_of("self")) - 1  # /proc may show what is further outside
        self.fds = [os.open("/proc", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)]
        self.fds += [os.dup(0) for _ in range(SPARE)]

    def own(self) -> int:
        """Give the number of this process. Raises OSError."""
        return self._number("self/status")

    def of(self, pid: int, pidfd: int) -> int:
        """Give the number of a process, as the launcher has it. pidfd: of it, or -1.

        Raises OSError.
        """
        if pidfd >= 0:
            try:
                return self._number(f"self/fdinfo/{pidfd}")
            except OSError as e:
                if e.errno not in (errno.EMFILE, errno.ENFILE):
                    raise
        return self._with_spare(pid, pidfd)

    def _with_spare(self, pid: int, pidfd: int) -> int:
        """Look with the descriptors that are kept for it."""
        while len(self.fds) > 1:
            os.close(self.fds.pop())
        own = pidfd if pidfd >= 0 else os.pidfd_open(pid)
        try:
            return self._number(f"self/fdinfo/{own}")
        finally:
            if own != pidfd:
                os.close(own)
            self.fds += [os.dup(0) for _ in range(SPARE)]

    def _number(self, name: str) -> int:
        fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self.fds[0])
        try:
            lines = os.read(fd, 4096).splitlines()
        finally:
            os.close(fd)
        for line in lines:
            if line.startswith(b"NSpid:"):
                return int(line.split()[1 + self.depth])
        raise OSError(errno.ENOSYS, "the kernel does not say NSpid (Linux 5.5)")
