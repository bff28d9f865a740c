"""Processes as they are read from /proc."""

import os
import subprocess

from seams.control import read_processes
from seams.system import ProcessInfo, below
from support import until


def test_a_process_is_read_as_it_is():
    env = {"RANK": "3", "PROCESSION_RUN": "a=b", "EMPTY": ""}
    line = ["sleep", "60"]
    with subprocess.Popen(line, env=env) as child:
        found = until(lambda: read_processes().get(child.pid), "the process")
        until(lambda: read_processes()[child.pid].words == ("sleep", "60"), "its exec")
        found = read_processes()[child.pid]
        assert (found.parent, found.env) == (os.getpid(), env)
        assert found.pages > 0
        child.kill()
        until(lambda: child.pid not in read_processes(), "it being a zombie")


def test_a_circle_of_parents_is_no_endless_loop():
    one, other = (ProcessInfo(pid, above, pid, 1) for pid, above in ((10, 11), (11, 10)))
    assert below([10], {10: one, 11: other}) == {10, 11}
