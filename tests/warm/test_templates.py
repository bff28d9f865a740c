"""A forkserver leaves templates: a change above one leaves it as it is."""

import os
import select
import sys

import pytest
from serverlink import Link

from conftest import alive
from support import write


@pytest.fixture
def program(tmp_path):
    """Two modules in different layers, and how they are imported."""
    write(tmp_path / "low" / "lowmodule.py", "WHAT = 1\n")
    write(tmp_path / "own" / "ownmodule.py", "import lowmodule, os\nos.environ.get('OWN_READS')\n")
    return {
        "modules": ["lowmodule", "ownmodule"],
        "late": [],
        "env": {"PATH": os.environ["PATH"]},
        "path": [str(tmp_path / "low"), str(tmp_path / "own"), *filter(None, sys.path)],
        "cwd": str(tmp_path),
        "sets": [],
        "listed": False,
        "watched": [],
        "reads": [],
        "templates": [1],
    }


@pytest.fixture
def server(program):
    """A forkserver that has imported both."""
    link = Link.start(dict(os.environ))
    link.tell("preload", program)
    yield link
    link.close(child=True)


def test_a_template_has_what_is_below(server, program, tmp_path):
    template, extent = server.template()
    assert extent == 1
    assert server.hear("preloaded") == ("", [])
    assert template.pid not in (server.pid, os.getpid())
    # A change of the upper module, in the tick in which it was read: the lower one stays.
    write(tmp_path / "own" / "ownmodule.py", "import lowmodule, os\nWHAT = 2\n")
    assert server.take(program["env"]) == f"{tmp_path}/own/ownmodule.py changed"
    assert template.take(program["env"]) == ""
    # It goes up, and leaves a template once more, which outlives it.
    template.tell("preload", program)
    second, extent = template.template()
    assert extent == 1
    assert template.hear("preloaded") == ("", [])
    assert template.take(program["env"]) == ""
    template.close(child=False)
    assert alive(second.pid)
    assert second.take(program["env"]) == ""
    # A change below takes all.
    os.utime(tmp_path / "low" / "lowmodule.py")
    assert second.take(program["env"]) == f"{tmp_path}/low/lowmodule.py changed"
    second.close(child=False)


def test_variables_that_a_module_has_read(server, program):
    template, _ = server.template()
    server.hear("preloaded")
    env = {**program["env"], "NOBODY_READS": "1"}
    assert server.take(env) == ""
    env["OWN_READS"] = "1"
    assert server.take(env) == "the variable OWN_READS changed"
    assert template.take(env) == ""
    template.close(child=False)


def test_a_template_goes_with_its_launcher_also_while_it_is_stopped(server):
    template, _ = server.template()
    server.hear("preloaded")
    template.stop()
    template.close(child=False)


def test_a_template_has_no_descriptor_of_ranks_to_come(program):
    """Also where those were asked for before it was left."""
    link = Link.start(dict(os.environ))
    read_end, write_end = os.pipe()
    link.tell("preload", program)
    link.tell("do", 1, 1, ("rest", 60), fds=[write_end])  # it is heard together with the first
    os.close(write_end)
    template, _ = link.template()
    link.hear("preloaded")
    link.close(child=True)
    assert select.select([read_end], [], [], 20)[0]
    assert os.read(read_end, 1) == b""
    os.close(read_end)
    assert template.take(program["env"]) == ""
    template.close(child=False)


def test_what_was_imported_unobserved_is_not_taken(program):
    link = Link.start(dict(os.environ))
    link.tell("preload", {**program, "watched": None, "modules": ["lowmodule"], "templates": []})
    assert link.hear("preloaded") == ("", [])
    assert link.take(program["env"]) == "nobody observed its imports"
    link.tell("preload", {**program, "templates": []})
    assert link.hear("preloaded") == ("", [])
    assert link.take(program["env"]) == "it was not observed from the beginning"
    link.close(child=True)
