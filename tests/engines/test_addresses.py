"""Room for the links to thousands of node processes; each case in a process of its own."""

from support import run_python

LIMITED = """
import resource

from procession.engines.addresses import make_room
from procession.values.errors import SpecError

resource.setrlimit(resource.RLIMIT_NOFILE, (100, 1000))
"""


def room(call):
    script = LIMITED + f"try:\n    {call}\nexcept SpecError as e:\n    print(e)\n"
    done = run_python("-c", script + "print(resource.getrlimit(resource.RLIMIT_NOFILE))")
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_limit_is_raised_as_far_as_needed():
    assert room("make_room(500)") == ["(756, 1000)"]


def test_what_cannot_be_is_refused_in_one_line():
    said, limits = room("make_room(1000)")
    assert "1000 nodes need 1256 descriptors" in said
    assert "(ulimit -Hn)" in said
    assert limits == "(100, 1000)"
