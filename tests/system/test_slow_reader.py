"""A reader that is slow, but reads, gets all that ranks wrote."""

import subprocess
import sys
import time

import pytest

LINES, WIDTH = 20_000, 100
PROGRAM = f"""
import procession, sys

def talk():
    for n in range({LINES}):
        sys.stdout.write(str(n).rjust({WIDTH - 1}) + "\\n")

logs = procession.Logs(sys.argv[1], tee=procession.Std.ALL)  # the rank does not wait for a reader
procession.run(talk, nproc=1, logs=logs)
"""
LONGER_THAN_A_STALL = 4.0  # seconds; a reader that takes nothing is given up after 2


@pytest.mark.long
def test_a_slow_reader_gets_all(tmp_path):
    (tmp_path / "talk.py").write_text(PROGRAM)
    command = [sys.executable, tmp_path / "talk.py", tmp_path / "logs"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as it:
        assert it.stdout is not None
        began, got = time.monotonic(), b""
        pace = LONGER_THAN_A_STALL / (LINES * WIDTH)  # seconds for a byte
        while block := it.stdout.read(1 << 16):
            got += block
            time.sleep(max(0.0, began + len(got) * pace - time.monotonic()))
    assert it.returncode == 0
    numbers = [int(line.rpartition(b" ")[2]) for line in got.splitlines()]
    assert numbers == list(range(LINES))
