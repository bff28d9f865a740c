"""A file system in memory, served through /dev/fuse, whose writes fail or hang on command.

fuse.py DIRECTORY COMMAND: mounts itself at the directory, says "ready", and serves. The file
COMMAND holds what becomes of writes from now on: nothing, the name of an error ("EIO", "EDQUOT"),
or "hang": then the request that was read is not answered, so that the process which made it cannot
even be killed, and none after it is read, until the file changes.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import signal
import stat
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

HEADER = struct.Struct("=IIQQIIIHH")
ANSWER = struct.Struct("=IiQ")
ATTRIBUTES = struct.Struct("=6Q10I")
MOST_WRITE = 1 << 17
CHANGES = ("WRITE", "CREATE", "MKDIR", "SYMLINK", "SETATTR", "RENAME", "RENAME2", "FSYNC")
NAMES = {
    1: "LOOKUP",
    2: "FORGET",
    3: "GETATTR",
    4: "SETATTR",
    5: "READLINK",
    6: "SYMLINK",
    9: "MKDIR",
    10: "UNLINK",
    11: "RMDIR",
    12: "RENAME",
    14: "OPEN",
    15: "READ",
    16: "WRITE",
    17: "STATFS",
    18: "RELEASE",
    20: "FSYNC",
    25: "FLUSH",
    26: "INIT",
    27: "OPENDIR",
    28: "READDIR",
    29: "RELEASEDIR",
    35: "CREATE",
    36: "INTERRUPT",
    42: "FORGETS",
    45: "RENAME2",
}


@dataclass
class Node:
    """A file, a directory or a link. names: of a directory, the numbers of what is in it."""

    number: int
    mode: int
    data: bytearray = field(default_factory=bytearray)
    names: dict[bytes, int] = field(default_factory=dict[bytes, int])
    changed: float = field(default_factory=time.time)


class Disk:
    """The file system. command: the file that says what becomes of writes."""

    def __init__(self, device: int, command: str) -> None:
        self.device, self.command = device, command
        self.nodes = {1: Node(1, stat.S_IFDIR | 0o755)}
        self.next = 2
        self.calls: dict[str, Callable[[int, bytes], bytes | None]] = {
            name: getattr(self, f"_{name.lower()}") for name in NAMES.values()
        }

    def serve(self) -> None:
        """Answer requests until it is unmounted."""
        while True:
            try:
                request = os.read(self.device, MOST_WRITE + 4096)
            except InterruptedError:
                continue
            except OSError as e:
                if e.errno == errno.ENODEV:
                    return
                if e.errno == errno.ENOENT:  # the request was given up
                    continue
                raise
            _, code, unique, node, *_ = HEADER.unpack_from(request)
            name = NAMES.get(code, "")
            failed, body = 0, b""
            try:
                if name in CHANGES:
                    self._fault()
                call = self.calls.get(name)
                if call is None:
                    raise OSError(errno.ENOSYS, name)
                answer = call(node, request[HEADER.size :])
                if answer is None:
                    continue  # this one has no answer
                body = answer
            except OSError as e:
                failed = e.errno or errno.EIO
            except KeyError:
                failed = errno.ENOENT
            try:
                os.write(self.device, ANSWER.pack(ANSWER.size + len(body), -failed, unique) + body)
            except OSError as e:
                if e.errno not in (errno.ENOENT, errno.ENODEV):
                    raise

    def _fault(self) -> None:
        """Fail or hang, if that is commanded."""
        while (word := self._commanded()) == "hang":
            time.sleep(0.005)
        if word:
            number = getattr(errno, word)
            raise OSError(number, os.strerror(number))

    def _commanded(self) -> str:
        with open(self.command, encoding="ascii") as f:
            return f.read().strip()

    def _make(self, parent: int, name: bytes, mode: int) -> Node:
        node = Node(self.next, mode)
        self.next += 1
        self.nodes[node.number] = node
        self.nodes[parent].names[name] = node.number
        return node

    def _attributes(self, node: Node) -> bytes:
        at = int(node.changed)
        size = len(node.data)
        return ATTRIBUTES.pack(
            node.number, size, (size + 511) // 512, at, at, at, 0, 0, 0, node.mode, 1,
            os.getuid(), os.getgid(), 0, 4096, 0,
        )  # fmt: skip

    def _entry(self, node: Node) -> bytes:
        return struct.pack("=QQQQII", node.number, 0, 0, 0, 0, 0) + self._attributes(node)

    def _init(self, node: int, body: bytes) -> bytes:
        return struct.pack("=IIIIHHI40x", 7, 31, 1 << 17, 0, 12, 9, MOST_WRITE)

    def _lookup(self, node: int, body: bytes) -> bytes:
        return self._entry(self.nodes[self.nodes[node].names[_word(body)]])

    def _getattr(self, node: int, body: bytes) -> bytes:
        return struct.pack("=QII", 0, 0, 0) + self._attributes(self.nodes[node])

    def _setattr(self, node: int, body: bytes) -> bytes:
        which, _, _, size = struct.unpack_from("=IIQQ", body)
        (mode,) = struct.unpack_from("=I", body, 68)
        found = self.nodes[node]
        if which & 1:
            found.mode = stat.S_IFMT(found.mode) | stat.S_IMODE(mode)
        if which & 8:
            del found.data[size:]
            found.data.extend(bytes(size - len(found.data)))
        return self._getattr(node, body)

    def _readlink(self, node: int, body: bytes) -> bytes:
        return bytes(self.nodes[node].data)

    def _symlink(self, node: int, body: bytes) -> bytes:
        name, target = body.split(b"\0")[:2]
        made = self._make(node, name, stat.S_IFLNK | 0o777)
        made.data.extend(target)
        return self._entry(made)

    def _mkdir(self, node: int, body: bytes) -> bytes:
        mode, umask = struct.unpack_from("=II", body)
        return self._entry(self._make(node, _word(body[8:]), stat.S_IFDIR | (mode & ~umask)))

    def _create(self, node: int, body: bytes) -> bytes:
        _, mode, umask, _ = struct.unpack_from("=IIII", body)
        made = self._make(node, _word(body[16:]), stat.S_IFREG | (mode & ~umask & 0o7777))
        return self._entry(made) + struct.pack("=QII", made.number, 0, 0)

    def _unlink(self, node: int, body: bytes) -> bytes:
        del self.nodes[node].names[_word(body)]  # what is open goes on to have its node
        return b""

    def _rmdir(self, node: int, body: bytes) -> bytes:
        if self.nodes[self.nodes[node].names[_word(body)]].names:
            raise OSError(errno.ENOTEMPTY, "not empty")
        return self._unlink(node, body)

    def _rename(self, node: int, body: bytes, size: int = 8) -> bytes:
        (target,) = struct.unpack_from("=Q", body)
        old, new = body[size:].split(b"\0")[:2]
        self.nodes[target].names[new] = self.nodes[node].names.pop(old)
        return b""

    def _rename2(self, node: int, body: bytes) -> bytes:
        return self._rename(node, body, 16)

    def _open(self, node: int, body: bytes) -> bytes:
        return struct.pack("=QII", node, 0, 0)

    def _read(self, node: int, body: bytes) -> bytes:
        _, offset, size = struct.unpack_from("=QQI", body)
        return bytes(self.nodes[node].data[offset : offset + size])

    def _write(self, node: int, body: bytes) -> bytes:
        _, offset, size = struct.unpack_from("=QQI", body)
        found = self.nodes[node]
        found.data.extend(bytes(max(0, offset - len(found.data))))
        found.data[offset : offset + size] = body[40 : 40 + size]
        found.changed = time.time()
        return struct.pack("=II", size, 0)

    def _readdir(self, node: int, body: bytes) -> bytes:
        _, offset, size = struct.unpack_from("=QQI", body)
        told = b""
        for place, (name, number) in enumerate(self.nodes[node].names.items(), 1):
            if place <= offset:
                continue
            kind = stat.S_IFMT(self.nodes[number].mode) >> 12
            entry = struct.pack("=QQII", number, place, len(name), kind) + name
            entry += bytes(-len(entry) % 8)
            if len(told) + len(entry) > size:
                break
            told += entry
        return told

    def _statfs(self, node: int, body: bytes) -> bytes:
        return struct.pack(
            "=5Q4I24x", 1 << 20, 1 << 20, 1 << 20, 1 << 16, 1 << 16, 4096, 255, 4096, 0
        )

    def _nothing(self, node: int, body: bytes) -> bytes:
        return b""

    def _silent(self, node: int, body: bytes) -> None:
        return None

    _opendir, _release, _releasedir, _flush, _fsync = _open, _nothing, _nothing, _nothing, _nothing
    _forget = _forgets = _interrupt = _silent


def _word(body: bytes) -> bytes:
    return body.partition(b"\0")[0]


def possible() -> bool:
    """Tell whether it can be had: this user may mount, and has the device."""
    words = ["unshare", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"]
    here = os.path.exists("/dev/fuse")
    return here and not subprocess.run(words, capture_output=True, check=False).returncode


@contextlib.contextmanager
def mounted(disk: Path, command: Path) -> Iterator[None]:
    """Mount it at a directory, and make the file that commands it. Raises OSError."""
    command.touch()
    words = [sys.executable, "-IS", __file__, str(disk), str(command)]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        said = server.stdout.readline()
        if said != b"ready\n":
            raise OSError(f"no file system of ours: {said!r}")
        try:
            yield
        finally:
            command.write_text("")
            server.kill()  # who waits for it gets an error
            subprocess.run(["umount", "--lazy", str(disk)], check=True, capture_output=True)


def main() -> None:
    """Be mounted, and serve."""
    directory, command = sys.argv[1:]
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG: with the worker
    device = os.open("/dev/fuse", os.O_RDWR)
    given = f"fd={device},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()}"
    if libc.mount(b"chaos", directory.encode(), b"fuse.chaos", 6, given.encode()):
        number = ctypes.get_errno()
        print(f"not mounted: {os.strerror(number)}", flush=True)
        sys.exit(1)
    print("ready", flush=True)
    Disk(device, command).serve()


if __name__ == "__main__":
    main()
