"""What a forkserver keeps of its children: which process of a rank has ended."""

from support import run_python

BEGIN = """
import os, signal
from types import SimpleNamespace
from procession.forkserver.children import Children
said = []
forking = SimpleNamespace(status_of=lambda rank: (), fault_of=lambda rank: None)
children = Children(forking, lambda *words: said.append(words[:3]))

def begin(then):
    pid = os.fork()
    if not pid:
        os.setsid()
        then()
        os._exit(0)
    return pid

def dead(pid):
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
"""


def said(script):
    done = run_python("-c", BEGIN + script + "\nprint(said)")
    assert done.stderr == ""
    return done.stdout.strip()


def test_the_end_of_a_process_is_told_before_the_next_one_of_its_rank_begins():
    """Its launcher may see it, and ask for another, before this process gets SIGCHLD."""
    script = """
first = begin(lambda: None)
children.add(0, first, 11)
dead(first)
children.make_way(0)
second = begin(lambda: None)
children.add(0, second, 22)
dead(second)
children.reap()
"""
    assert said(script) == "[('exited', 0, 11), ('exited', 0, 22)]"


def test_what_is_left_of_a_rank_is_not_looked_for_in_the_session_of_another():
    """The first one has left nothing, and its number has been used again."""
    script = """
other = begin(signal.pause)
while os.getsid(other) != other:
    pass
children.add(0, other, 22)
children.add(1, other, 33)
children.clean(0)
assert os.waitid(os.P_PID, other, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
os.kill(other, signal.SIGTERM)
dead(other)
children.reap()
assert said == [("exited", 1, 33)]
"""
    assert said(script) == "[('exited', 1, 33)]"
