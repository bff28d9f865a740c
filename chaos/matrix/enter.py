"""python -m chaos.matrix.enter ENVIRONMENT WORDS...: becomes a program in an environment.

The order is that of a container's runtime: namespaces, mounts, the filter, capabilities, the user.
With no_new_privs the filter comes last; without it, to install one takes a privilege.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Sequence

from chaos.matrix import seccomp
from chaos.matrix.environment import Environment, Mount, read

NAMESPACES = {
    "mount": 0x00020000,
    "cgroup": 0x02000000,
    "uts": 0x04000000,
    "ipc": 0x08000000,
    "pid": 0x20000000,
}
READ_ONLY, REMOUNT, BIND, RECURSIVE, PRIVATE, DETACH = 1, 32, 4096, 0x4000, 0x40000, 2
FLAGS = {"ro": 1, "nosuid": 2, "nodev": 4, "noexec": 8}
SET_DEATH_SIGNAL, DROP_BOUND, SET_NO_NEW_PRIVS = 1, 24, 38
SIGKILL = 9
# The names of capabilities, by their numbers.
_NAMES = """
    CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE
    NET_BIND_SERVICE NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO
    SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME
    SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG
    WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE
"""
CAPABILITIES = _NAMES.split()
_libc = ctypes.CDLL(None, use_errno=True)


def enter(environment: Environment) -> None:
    """Make it for this process. Raises OSError. The caller of a namespace of pids never returns:
    it waits for the first process there, and ends as that does.
    """
    flags = sum(NAMESPACES[name] for name in environment.namespaces)
    if flags:
        _must(_libc.unshare(flags), "unshare")
    if "pid" in environment.namespaces:
        _become_first()
    if "mount" in environment.namespaces:
        _mount("none", "/", "", RECURSIVE | PRIVATE)
        for each in environment.mounts:
            _make(each)
    refusals = list(environment.refusals)
    unknown = ""
    kept = environment.capabilities
    if environment.profile:
        given = seccomp.profile(environment.profile)
        refusals += seccomp.refusals_of(environment.profile)
        unknown = given["unknown"]
        kept = tuple(given["capabilities"]) if kept is None else kept
    program = seccomp.program(refusals, unknown) if refusals else []
    if program and not environment.no_new_privs:
        seccomp.install(program)
    if kept is not None:
        _keep(kept)
    if environment.user:
        os.setgroups([])
        os.setresgid(environment.user, environment.user, environment.user)
        os.setresuid(environment.user, environment.user, environment.user)
    if environment.no_new_privs:
        _must(_libc.prctl(SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
        if program:
            seccomp.install(program)
    for name, value in environment.variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _become_first() -> None:
    """Go on as the first process of a new namespace of pids."""
    pid = os.fork()
    if pid:
        ended = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        os._exit(ended if ended >= 0 else 128 - ended)
    _must(_libc.prctl(SET_DEATH_SIGNAL, SIGKILL, 0, 0, 0), "parent-death signal")


def _make(mount: Mount) -> None:
    target = mount.target
    words = [each for each in mount.options.split(",") if each]
    flags = sum(FLAGS.get(each, 0) for each in words)
    options = ",".join(each for each in words if each not in FLAGS)
    if mount.kind == "unmount":
        _must(_libc.umount2(target.encode(), DETACH), f"unmount {target}")
    elif mount.kind == "bind":
        _mount(mount.source, target, "", BIND | RECURSIVE)
    elif mount.kind == "read-only":
        _mount("none", target, "", BIND | REMOUNT | READ_ONLY | flags)
    elif mount.kind in ("masked", "protected"):
        if not os.path.exists(target):
            return  # as container runtimes do, for what a kernel does not have
        if mount.kind == "protected":
            _mount(target, target, "", BIND | RECURSIVE)
            _mount("none", target, "", BIND | REMOUNT | READ_ONLY)
        elif os.path.isdir(target):
            _mount("none", target, "tmpfs", READ_ONLY)
        else:
            _mount("/dev/null", target, "", BIND)
    else:
        _mount(mount.source, target, mount.kind, flags, options)


def _mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    words = source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags)
    _must(_libc.mount(*words, options.encode() or None), f"mount {kind or flags} on {target}")


def _keep(capabilities: Sequence[str]) -> None:
    for number, name in enumerate(CAPABILITIES):
        if name not in capabilities:
            _libc.prctl(DROP_BOUND, number, 0, 0, 0)  # an older kernel does not know the last ones


def _must(result: int, what: str) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def main() -> None:
    """Enter what the first word describes, and become the program that the others name."""
    text, *words = sys.argv[1:]
    try:
        enter(read(text))
    except OSError as e:
        sys.exit(f"not here: {e.strerror}")
    os.execv(words[0], words)


if __name__ == "__main__":
    main()
