"""What an agent keeps of its children: which process of a rank has ended."""

from support import run_python

SCRIPT = """
import os, signal
from types import SimpleNamespace
from procession.agent.children import Children
from procession.agent.order import Process
said = []
forking = SimpleNamespace(read_status=lambda rank: None, fault_of=lambda rank: None)
children = Children(forking, lambda process, *_: said.append(process.rank), None)

def begin():
    if not (pid := os.fork()):
        os.setsid()
        signal.pause()
    while os.getsid(pid) != pid:
        pass
    return pid

other = begin()
first, second = Process(0, other, 0), Process(1, other, 0)
children.add(first)
children.add(second)
children.clean(first)
assert os.waitid(os.P_PID, other, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
os.kill(other, signal.SIGTERM)
os.waitid(os.P_PID, other, os.WEXITED | os.WNOWAIT)
children.reap()
print(said)
"""


def test_what_is_left_of_a_rank_is_not_looked_for_in_the_session_of_another():
    """The first one has left nothing, and its number has been used again."""
    done = run_python("-c", SCRIPT)
    assert (done.stdout.strip(), done.stderr) == ("[1]", "")
