"""Starting programs by a child that shares this process's memory until its exec. x86-64, glibc.

Theory of operation. A fork copies page tables, and then every page that either process writes: for
a Python interpreter some 300 pages, three times the price of the program's own start. `posix_spawn`
avoids that by clone(CLONE_VM | CLONE_VFORK), but cannot set a parent-death signal, and no Python
can run in such a child. So the child runs a chain of calls into the C library that was prepared
before: each call is a context (`makecontext`) with a stack of its own, the signals that are blocked
in it, and a link to the next one; the child begins by `setcontext` on the first.

The parent sleeps until the exec, or the end, of the child; what a failed exec left in `errno` is
copied to where the parent finds it.

A chain has no conditions. One is needed: the child must exit if the parent is gone already when the
parent-death signal is set. A pipe does that, of which only the parent holds the reading end: the
child closes its own copy and writes, and is killed by SIGPIPE if there is no reader. (The kernel
closes a process's descriptors before it sends parent-death signals, so one of the two hits.)
What may fail otherwise, such as the change of directory, the parent does before.

A library that is loaded before the C library (LD_PRELOAD: tracers, sanitizers, file system
wrappers) may need more stack than there is here, and memory of its own. To bypass it would be
wrong, too, since it may have to see each exec. So if one has replaced a function that is used here,
programs are started by fork.

`Chain.make` tries it out, and gives None where it does not work: then fork is used.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys

from procession.system import plain as signal
from procession.system.prctl import PR_SET_PDEATHSIG, SIGKILL

TYPE_CHECKING = False  # `typing` takes 7 ms to import, which every launch would pay
if TYPE_CHECKING:
    from collections.abc import Iterable

    Call = tuple[str, tuple[int, ...]]

CLONE = 0x100 | 0x4000 | 17  # CLONE_VM | CLONE_VFORK | SIGCHLD
LIBC, THREADS = "libc.so.6", "libpthread.so.0"
CONTEXT, STACK = 1024, 4096  # bytes; a ucontext_t has 968
FIRST_STACK = 4096
LINK, STACK_AT, STACK_SIZE, MASK = 8, 16, 32, 296  # offsets in it
FIRST, SECOND, THIRD = 104, 112, 136  # those of a call's arguments: rdi, rsi, rdx
FUNCTIONS = ("setsid", "prctl", "signal", "close", "write", "dup2", "execve", "memcpy", "_exit",
             "setcontext")  # fmt: skip
ALL = (1 << 64) - 1


class Chain:
    """The calls between clone and exec, for programs that are started in the same way.

    handlers: by signal, SIG_DFL or SIG_IGN. mask: the signals that are blocked in the programs.
    """

    def __init__(self, handlers: dict[int, int], mask: Iterable[int]) -> None:
        # The C library without the release of the GIL: the child cannot have it taken.
        libc = ctypes.PyDLL(LIBC)
        self._get, self._make, self._clone = libc.getcontext, libc.makecontext, libc.clone
        self._at = {name: _address(libc, name) for name in FUNCTIONS}
        if _interposed(self._at):
            raise OSError(errno.ENOTSUP, "a library stands before the C library")
        errno_of_this_thread = libc["__errno_location"]
        errno_of_this_thread.restype = ctypes.c_void_p
        self._errno = int(errno_of_this_thread())
        self._fault = ctypes.c_int(0)
        self._mask = _bits(mask)
        self._reader, self._writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        before: list[Call] = [
            ("setsid", ()),
            ("prctl", (PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0)),
            *(("signal", each) for each in handlers.items()),
            ("close", (self._reader,)),
            ("write", (self._writer, ctypes.addressof(self._fault), 1)),
        ]
        varying: list[Call] = [*(("dup2", (0, to)) for to in range(3)), ("execve", (0, 0, 0))]
        after: list[Call] = [
            ("memcpy", (ctypes.addressof(self._fault), self._errno, 4)),
            ("_exit", (127,)),
        ]
        calls = [*before, *varying, *after]
        self._count = len(calls)
        size = self._count * (CONTEXT + STACK)
        self._memory = ctypes.create_string_buffer(size + FIRST_STACK + 64)
        self._base = (ctypes.addressof(self._memory) + 63) & ~63
        self._first_stack = ctypes.c_void_p(self._base + size + FIRST_STACK - 64)
        for place, (name, args) in enumerate(calls):
            self._lay(place, name, args)
        self._laid = ctypes.string_at(self._base, size)  # a run of the chain uses its stacks up
        # To lay these calls anew for each program would take a tenth of its start.
        first = self._base + len(before) * CONTEXT
        self._streams = [self._word(first + each * CONTEXT + FIRST) for each in range(3)]
        execve = first + 3 * CONTEXT
        self._program = [self._word(execve + each) for each in (FIRST, SECOND, THIRD)]

    @classmethod
    def make(cls, handlers: dict[int, int], mask: Iterable[int]) -> Chain | None:
        """Make one, and try it out; None if there is none on this machine."""
        if os.uname().machine != "x86_64" or sys.maxsize < 1 << 32:
            return None
        try:
            os.confstr("CS_GNU_LIBC_VERSION")
            chain = cls(handlers, mask)
            pid, fault = chain.start("/", [b"/"], [], (0, 1, 2))
        except (OSError, ValueError, AttributeError):
            return None
        _, status = os.waitpid(pid, 0)
        if os.waitstatus_to_exitcode(status) == 127 and fault == errno.EACCES:
            return chain
        chain.close()
        return None

    def _word(self, at: int) -> ctypes.c_long:
        return ctypes.c_long.from_address(at)

    def _lay(self, place: int, name: str, args: tuple[int, ...]) -> None:
        context = self._base + place * CONTEXT
        self._get(ctypes.c_void_p(context))
        link = context + CONTEXT if place + 1 < self._count else None
        ctypes.c_void_p.from_address(context + LINK).value = link
        stack = self._base + self._count * CONTEXT + place * STACK
        ctypes.c_void_p.from_address(context + STACK_AT).value = stack
        ctypes.c_size_t.from_address(context + STACK_SIZE).value = STACK
        blocked = self._mask if name == "execve" else ALL & ~_bits([signal.SIGPIPE])
        ctypes.c_uint64.from_address(context + MASK).value = blocked
        words = map(ctypes.c_long, args)
        self._make(ctypes.c_void_p(context), ctypes.c_void_p(self._at[name]), len(args), *words)

    def start(
        self, path: str, argv: list[bytes], env: list[bytes], streams: tuple[int, ...]
    ) -> tuple[int, int]:
        """Start a program, and return when it has begun, or could not: its pid; errno, or 0.

        To be called with all signals blocked. streams: descriptors above 2, to be 0, 1 and 2.
        Raises OSError if there is no process.
        """
        words = (ctypes.c_char_p * (len(argv) + 1))(*argv, None)
        block = (ctypes.c_char_p * (len(env) + 1))(*env, None)
        file = ctypes.create_string_buffer(os.fsencode(path))
        ctypes.memmove(self._base, self._laid, len(self._laid))
        for word, fd in zip(self._streams, streams, strict=True):
            word.value = fd
        program = ctypes.addressof(file), ctypes.addressof(words), ctypes.addressof(block)
        for word, address in zip(self._program, program, strict=True):
            word.value = address
        self._fault.value = 0
        start, context = ctypes.c_void_p(self._at["setcontext"]), ctypes.c_void_p(self._base)
        pid = self._clone(start, self._first_stack, CLONE, context)
        if pid < 0:
            number = ctypes.c_int.from_address(self._errno).value
            raise OSError(number, os.strerror(number))
        return pid, self._fault.value

    def close(self) -> None:
        """Close its descriptors."""
        os.close(self._reader)
        os.close(self._writer)


def _address(library: ctypes.CDLL, name: str) -> int:
    return ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0


def _interposed(own: dict[str, int]) -> bool:
    """Whether another library has replaced one of these functions of the C library.

    own: where the C library has them. Before glibc 2.34, its library for threads had some, too.
    """
    everywhere = ctypes.PyDLL(None)
    others = [name for name, at in own.items() if _address(everywhere, name) != at]
    if not others:
        return False
    threads = ctypes.PyDLL(THREADS)
    return any(
        not hasattr(threads, name) or _address(threads, name) != _address(everywhere, name)
        for name in others
    )


def _bits(signals: Iterable[int]) -> int:
    """Give a set of signals as the kernel has it."""
    return sum(1 << (int(number) - 1) for number in signals)
