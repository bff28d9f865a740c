"""Somebody who presses Ctrl-C again and again: the command ends in order, and says what it was."""

import os
import signal
import subprocess

import pytest

from support import PROCESSION, START_PATIENCE, until, write

# What the command does last takes a while: a handler at the exit of its interpreter.
SLOW_END = """
    import atexit, os, time

    if "RANK" not in os.environ and "SLOW_END" in os.environ:
        path = os.environ.pop("SLOW_END")

        def slow():
            open(path, "w").close()
            time.sleep(0.5)
        atexit.register(slow)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGQUIT])
def test_signals_while_the_command_goes(tmp_path, number):
    write(tmp_path / "sitecustomize.py", SLOW_END)
    ending, ready = tmp_path / "ending", tmp_path / "ready"
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "SLOW_END": str(ending)}
    shell = f"touch {ready}; exec sleep 100"
    with subprocess.Popen(
        [*PROCESSION, "run", "-n", "1", "sh", "-c", shell],
        env=env,
        stderr=subprocess.PIPE,
        text=True,
    ) as command:
        until(ready.exists, "the rank", START_PATIENCE)
        command.send_signal(number)
        until(ending.exists, "the exit handlers")
        command.send_signal(number)
        said = command.stderr.read()
        assert command.wait(20) == 128 + number
    assert "Traceback" not in said
    assert f"was stopped by {number.name}" in said
