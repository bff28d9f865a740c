import os
import signal
import sys

import pytest

from seams.values import Exit, signal_name


@pytest.mark.parametrize(
    ("number", "name"),
    [
        (signal.SIGKILL, "SIGKILL"),
        (9, "SIGKILL"),
        (15, "SIGTERM"),
        (signal.SIGRTMIN, "SIGRTMIN"),
        (signal.SIGRTMIN + 3, "SIGRTMIN+3"),
        (signal.SIGRTMAX - 1, f"SIGRTMIN+{signal.SIGRTMAX - signal.SIGRTMIN - 1}"),
        (signal.SIGRTMAX, "SIGRTMAX"),
        (99, "signal 99"),
        (0, "signal 0"),
    ],
)
def test_signal_name(number, name):
    assert signal_name(number) == name


@pytest.mark.parametrize(
    ("exit_", "ok", "shell", "returncode", "text"),
    [
        (Exit(code=0), True, 0, 0, "exit code 0"),
        (Exit(code=3), False, 3, 3, "exit code 3"),
        (Exit(code=255), False, 255, 255, "exit code 255"),
        (Exit(signal=15), False, 143, -15, "SIGTERM (signal 15)"),
        (Exit(signal=11, core=True), False, 139, -11, "SIGSEGV (signal 11), core dumped"),
        (Exit(signal=37), False, 165, -37, "SIGRTMIN+3 (signal 37)"),
        (Exit(), False, 1, None, "unknown exit status"),
    ],
)
def test_an_exit_in_all_its_forms(exit_, ok, shell, returncode, text):
    assert exit_.ok is ok
    assert exit_.shell_code == shell
    assert exit_.returncode == returncode
    assert str(exit_) == text


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("import os; os._exit(7)", Exit(code=7)),
        ("import os; os.kill(os.getpid(), 9)", Exit(signal=9)),
        ("import os, signal; os.kill(os.getpid(), signal.SIGRTMIN + 3)", Exit(signal=37)),
    ],
)
def test_the_kernels_own_status(program, expected):
    pid = os.posix_spawn(sys.executable, [sys.executable, "-S", "-c", program], os.environ)
    assert Exit.from_wait_status(os.waitpid(pid, 0)[1]) == expected
