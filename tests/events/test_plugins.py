"""Who is told of events: `on_event`, and what installed packages declare."""

import logging
import os
import sys
import time

import pytest

import procession
from seams.supervise import plugins
from seams.values import SpecError
from support import QUICK, run_python, shell, write

OLD = time.time() - 3600


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


def test_a_handler_may_stop_the_group():
    groups = []

    def handle(event):
        if event.kind == "running":
            groups[0].stop(wait=False)

    class Late:
        def __call__(self, event):
            handle(event)

    group = procession.start(shell("sleep 60"), stop=QUICK)
    groups.append(group)
    group.subscribe(Late())
    assert group.wait().state is procession.Phase.STOPPED


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


def package(directory, name, declared, module=SITE):
    """Put a package with its metadata there."""
    write(directory / f"{name}.py", module)
    metadata = directory / f"{name}-1.0.dist-info"
    write(metadata / "METADATA", f"Name: {name}\nVersion: 1.0\n")
    write(metadata / "entry_points.txt", declared)
    os.utime(directory, (OLD, OLD))
    return directory


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A directory of packages on `sys.path`."""
    made = tmp_path / "site"
    made.mkdir()
    monkeypatch.syspath_prepend(made)
    yield made
    for name in ("seen", "other"):
        sys.modules.pop(name, None)


def test_entry_points(site, caplog):
    declared = """
        [console_scripts]
        tool = seen:none
        [procession.event_handlers]
        a = seen:make
        b = seen:none [extra]
        # c = seen:not_this
        d = seen:broken
        e = seen:missing
        f = no_such_module:make
        [other]
        g = seen:not_this
        """
    package(site, "seen", declared)
    procession.run(["true"], nproc=2)
    import seen

    assert seen.heard[0] == ("true", 2)
    assert (seen.heard[1], seen.heard[-1]) == ("starting", "succeeded")
    messages = [r.getMessage() for r in caplog.records if r.name == "procession"]
    assert [m.partition(" raised ")[2].partition(",")[0] for m in messages] == [
        "OSError", "AttributeError", "ModuleNotFoundError",
    ]  # fmt: skip


def test_what_was_found_is_kept_until_the_directory_changes(site, monkeypatch):
    package(site, "seen", "[procession.event_handlers]\na = seen:make\n")
    assert plugins.find() == ["seen:make"]
    scanned = []
    real = plugins._scan
    monkeypatch.setattr(plugins, "_scan", lambda path: scanned.append(path) or real(path))
    assert plugins.find() == ["seen:make"]
    assert str(site) not in scanned
    package(site, "other", "[procession.event_handlers]\nz = other:make\n")
    os.utime(site, (OLD + 5, OLD + 5))
    assert sorted(plugins.find()) == ["other:make", "seen:make"]
    assert str(site) in scanned


def test_a_directory_that_has_just_changed_is_looked_at_again(site):
    package(site, "seen", "[procession.event_handlers]\na = seen:make\n")
    os.utime(site)
    assert plugins.find() == ["seen:make"]
    file = site / "seen-1.0.dist-info" / "entry_points.txt"
    file.write_text("")  # which the directory's own time does not show
    assert plugins.find() == []


def test_garbage_in_the_cache_is_of_no_account(site, tmp_path):
    cache = os.environ["XDG_CACHE_HOME"]
    package(site, "seen", "[procession.event_handlers]\na = seen:make\n")
    for garbage in (b"\xff\xfe\0", b"\t\t\n\n", f"{site}\tmany\tseen:other".encode(), b"x" * 2000):
        assert plugins.find() == ["seen:make"]
        file = os.path.join(cache, "procession", "event_handlers", "found")
        with open(file, "wb") as f:
            f.write(garbage)
        assert plugins.find() == ["seen:make"]


def test_without_a_cache_directory(site, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", "")
    package(site, "seen", "[procession.event_handlers]\na = seen:make\n")
    assert plugins.find() == ["seen:make"]


def test_in_a_directory_that_is_gone(tmp_path, monkeypatch):
    lost = tmp_path / "lost"
    lost.mkdir()
    monkeypatch.chdir(lost)
    lost.rmdir()
    monkeypatch.syspath_prepend("")
    assert plugins.find() == []


def test_a_launch_without_any_imports_no_library_for_it():
    done = run_python(
        "-c",
        "import procession, sys\n"
        "procession.run(['true'])\n"
        "print([m for m in sys.modules if m.startswith(('importlib.metadata', 'opentelemetry'))])",
    )
    assert done.stdout == "[]\n", done.stderr
