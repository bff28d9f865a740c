"""A forkserver asked to work for another launcher says what has changed since its imports."""

import os
import sys

import pytest
from serverlink import Link

from support import write


@pytest.fixture
def program(tmp_path):
    """What is imported, and how."""
    write(tmp_path / "lowmodule.py", "WHAT = 1\n")
    write(tmp_path / "upper.py", "import lowmodule, os\nos.environ.get('UPPER_READS')\n")
    return {
        "modules": ["lowmodule"],
        "env": {"PATH": os.environ["PATH"]},
        "path": [str(tmp_path), *filter(None, sys.path)],
        "cwd": str(tmp_path),
        "unset": [],
        "listed": False,
        "watched": [],
        "reads": [],
    }


@pytest.fixture
def server(program):
    """A forkserver that has imported one, and then the other."""
    link = Link.start(dict(os.environ))
    for modules in (["lowmodule"], ["lowmodule", "upper"]):
        link.tell("preload", {**program, "modules": modules})
        assert link.hear("preloaded") == ("", [], "")
    yield link
    link.close()


@pytest.mark.parametrize("name", ["lowmodule", "upper"])
def test_a_change_of_a_module(server, program, tmp_path, name):
    assert server.take(program["env"]) == ""
    os.utime(tmp_path / f"{name}.py")
    assert server.take(program["env"]) == f"{tmp_path}/{name}.py changed"


def test_variables_that_a_module_has_read(server, program):
    env = {**program["env"], "NOBODY_READS": "1"}
    assert server.take(env) == ""
    env["UPPER_READS"] = "1"
    assert server.take(env) == "the variable UPPER_READS changed"
