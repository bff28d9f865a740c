"""`system.vfork`: a program is started without a copy of its parent, with all that a rank needs."""

import os
import signal
import tempfile

import pytest

from seams.system import Chain

HANDLERS = dict.fromkeys((signal.SIGPIPE, signal.SIGXFSZ), signal.SIG_DFL)
HANDLERS[signal.SIGHUP] = signal.SIG_IGN


@pytest.fixture
def chain():
    made = Chain.make({int(n): int(h) for n, h in HANDLERS.items()}, {int(signal.SIGUSR1)})
    if made is None:
        assert os.uname().machine != "x86_64"
        pytest.skip("there is none on this machine")
    yield made
    made.close()


def start(chain, argv, env=()):
    """Start a program; gives its pid, the errno of its exec, and what it wrote."""
    with tempfile.TemporaryFile() as file, open(os.devnull) as null:
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            words = [os.fsencode(word) for word in argv]
            streams = null.fileno(), file.fileno(), file.fileno()
            pid, fault = chain.start(argv[0], words, list(env), streams)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        file.seek(0)
        return pid, fault, file.read()


def ended(pid):
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_session_signals_and_descriptors(chain):
    pid, fault, said = start(chain, ["/bin/cat", "/proc/self/status", "/proc/self/stat"])
    assert fault == 0 and ended(pid) == 0
    status = dict(line.split(":\t", 1) for line in said.decode().splitlines() if ":\t" in line)
    assert int(status["SigBlk"], 16) == 1 << (signal.SIGUSR1 - 1)
    assert int(status["SigIgn"], 16) & 0x7FFFFFFF == 1 << (signal.SIGHUP - 1)
    parent, group, session = said.rpartition(b")")[2].split()[1:4]
    assert (int(parent), int(group), int(session)) == (os.getpid(), pid, pid)
    pid, fault, said = start(chain, ["/bin/ls", "/proc/self/fd"])
    assert fault == 0 and ended(pid) == 0
    assert not {chain._reader, chain._writer} & {int(fd) for fd in said.split()}


def test_a_child_whose_parent_is_gone_does_not_begin(chain):
    os.close(chain._reader)  # as the kernel does when the parent ends
    try:
        pid, _, said = start(chain, ["/bin/echo", "begun"])
        assert (ended(pid), said) == (-signal.SIGPIPE, b"")
    finally:
        chain._reader = os.open(os.devnull, os.O_RDONLY)
