"""Handlers of events: `on_event`, and those of installed packages that the environment chooses."""

import logging
import os
import sys

import pytest

import procession
from engines.localengine import LocalEngine
from seams.values import SpecError
from support import run_procession, run_python, write


def test_on_event_has_every_event_of_the_group():
    heard = []
    group = procession.start(["true"], nproc=2, on_event=heard.append)
    group.wait()
    assert heard == list(group)
    assert (heard[0].kind, heard[-1].kind) == ("starting", "succeeded")
    more = []
    procession.run(["true"], on_event=more.append)
    assert more[-1].kind == "succeeded"


@pytest.mark.parametrize("kind", [RuntimeError, SystemExit, KeyboardInterrupt])
def test_a_handler_that_raises_is_logged_once_and_harms_nothing(caplog, kind):
    heard = []

    def handle(event):
        heard.append(event)
        raise kind("broken handler")

    procession.run(["true"], nproc=2, on_event=handle)
    assert heard[-1].kind == "succeeded"
    (said,) = [r for r in caplog.records if r.name == "procession"]
    assert said.levelno == logging.ERROR
    assert kind.__name__ in said.getMessage()
    assert "broken handler" in caplog.text


def test_what_is_no_handler_is_refused():
    with pytest.raises(SpecError, match="on_event must be a function"):
        procession.start(["true"], on_event="print")


class Giving:
    """A handler with variables for ranks."""

    def __init__(self, fault=None):
        self.fault = fault
        self.asked = []

    def __call__(self, event):
        pass

    def environment(self, attempt, rank):
        self.asked.append((attempt, rank))
        if self.fault:
            raise self.fault
        return {"GIVEN": f"{attempt}.{rank}", "OWN": "of the handler"}


def given():
    return os.environ.get("GIVEN"), os.environ.get("OWN")


def test_a_handler_gives_ranks_variables():
    handler = Giving()
    values = procession.run(given, nproc=2, on_event=handler, env={1: {"OWN": "of the user"}})
    assert values == [("0.0", "of the handler"), ("0.1", "of the user")]
    assert handler.asked == [(0, 0), (0, 1)]


def test_a_handler_that_cannot_give_them_is_logged_once(caplog):
    values = procession.run(given, nproc=2, on_event=Giving(KeyError("lost")))
    assert values == [(None, None)] * 2
    assert len([r for r in caplog.records if r.name == "procession"]) == 1


# -- entry points

SITE = """
heard = []

def make(description):
    heard.append((description["name"], description["nproc"]))
    return lambda event: heard.append(event.kind)

def none(description):
    return None

def broken(description):
    raise OSError("broken package")
"""
DECLARED = """
[console_scripts]
tool = seen:none
[procession.event_handlers]
a = seen:make
b = seen:none [extra]
c = seen:broken
d = seen:missing
e = no_such_module:make
f = seen:make
"""


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A package with entry points, on `sys.path`."""
    write(tmp_path / "site" / "seen.py", SITE)
    metadata = tmp_path / "site" / "seen-1.0.dist-info"
    write(metadata / "METADATA", "Name: seen\nVersion: 1.0\n")
    write(metadata / "entry_points.txt", DECLARED)
    monkeypatch.syspath_prepend(tmp_path / "site")
    yield
    sys.modules.pop("seen", None)


@pytest.mark.parametrize(("engine", "first"), [(None, "starting"), (LocalEngine(2), "gathering")])
def test_the_entry_points_that_the_environment_names(site, monkeypatch, caplog, engine, first):
    monkeypatch.setenv("PROCESSION_EVENT_HANDLERS", "a, b,c,d,e")
    procession.run(["true"], nproc=2, engine=engine)
    import seen

    assert seen.heard[:2] == [("true", 2), first]
    assert (seen.heard.count("starting"), seen.heard[-1]) == (1, "succeeded")
    messages = [r.getMessage() for r in caplog.records if r.name == "procession"]
    assert [m.partition(" raised ")[2].partition(",")[0] for m in messages] == [
        "OSError", "AttributeError", "ModuleNotFoundError",
    ]  # fmt: skip


def test_an_unknown_name_is_refused_before_a_process_starts(site, monkeypatch):
    monkeypatch.setenv("PROCESSION_EVENT_HANDLERS", "a,seen")
    with pytest.raises(
        SpecError, match="no package has a handler 'seen'; installed: a, b, c, d, e, f"
    ):
        procession.start(["true"])
    assert "seen" not in sys.modules
    done = run_procession("run", "true")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "PROCESSION_EVENT_HANDLERS: no package has a handler 'a'" in done.stderr


def test_a_launch_without_any_imports_no_library_for_it():
    done = run_python(
        "-c",
        "import procession, sys\n"
        "procession.run(['true'])\n"
        "print([m for m in sys.modules if m.startswith(('importlib.metadata', 'opentelemetry'))])",
    )
    assert done.stdout == "[]\n", done.stderr
