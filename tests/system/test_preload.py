"""Modules that the agent imports once, before it forks the ranks."""

import logging

import pytest

import procession
import procession.forkserver
from procession import Logs
from support import write


@pytest.fixture
def modules(tmp_path, monkeypatch):
    """A folder of modules that interpreters find; each notes the processes that import it."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "path"))
    note = "import os; open(__file__ + '.log', 'a').write(f'{os.getpid()}\\n')\n"

    def make(name, source=""):
        return write(tmp_path / "path" / f"{name}.py", note + source)

    return make


# With a part that cannot be loaded twice into one process.
FAILS_ONCE = """
import importlib.machinery as m, sys, types
native = types.ModuleType("early.native")
native.__spec__ = m.ModuleSpec("early.native", m.ExtensionFileLoader("early.native", "x"))
if len(open(__file__ + '.log').read().split()) == 1:
    sys.modules["early.native"] = native
    raise ImportError("once")
"""


def importers(path):
    log = path.with_name(path.name + ".log")
    return log.read_text().split() if log.exists() else []


def script(tmp_path, source):
    return procession.Script(str(write(tmp_path / "main.py", source)))


def run(program, **options):
    logs = Logs(dir=options.pop("dir"), redirect=procession.Std.ALL)
    with procession.start(program, nproc=3, logs=logs, **options) as group:
        result = group.wait()
    outs, errs = [], []
    for end in result.ranks:
        with open(end.stdout_log) as out, open(end.stderr_log) as err:
            outs.append(out.read())
            errs.append(err.read())
    return outs, errs


def test_a_module_is_imported_once_for_all_ranks_of_a_launch(tmp_path, modules):
    path = modules("early", "value = 5")
    program = script(tmp_path, "import sys; print('early' in sys.modules); import early")
    for launch in (1, 2):  # nothing that has imported a user's module is kept
        outs, _ = run(program, preload=["early"], dir=tmp_path / "logs")
        assert outs == ["True\n"] * 3
        assert len(importers(path)) == launch
    outs, _ = run(program, preload=None, dir=tmp_path / "logs")
    assert outs == ["False\n"] * 3
    assert len(importers(path)) == 5


def test_every_rank_prints_and_sets_what_an_import_does(tmp_path, modules):
    modules(
        "early",
        "import sys; print('hello'); print('careful', file=sys.stderr)\n"
        "os.environ['SET_BY_IMPORT'] = 'yes'; os.environ.setdefault('GIVEN', 'no')",
    )
    source = "import early, os; print(os.environ['SET_BY_IMPORT'], os.environ['GIVEN'])"
    program, env = script(tmp_path, source), {"GIVEN": "mine"}
    outs, errs = run(program, preload=["early"], env=env, dir=tmp_path / "logs")
    assert outs == ["hello\nyes mine\n"] * 3
    assert errs == ["careful\n"] * 3


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (
            "import threading as t; t.Thread(target=t.Event().wait, daemon=True).start()",
            "importing early started a thread",
        ),
        ("import socket; kept = socket.socketpair()", "an import opened a connection"),
        (
            "import subprocess; kept = subprocess.Popen(['true'])",
            "an import started a process",
        ),
        ("import signal; signal.signal(signal.SIGCHLD, print)", "an import took hold of a signal"),
        ("import sys; sys.path.append('/nowhere')", "an import changed sys.path"),
        ("os.chdir('/')", "an import changed the working directory"),
        (FAILS_ONCE, "an import failed half-way (early (ImportError))"),
    ],
)
def test_what_no_fork_survives_gives_fresh_interpreters(tmp_path, modules, caplog, source, why):
    path = modules("early", source)
    program = script(tmp_path, "import sys; print('early' in sys.modules); import early")
    with caplog.at_level(logging.WARNING, "procession"):
        outs, _ = run(program, preload=["early"], dir=tmp_path / "logs")
    assert outs == ["False\n"] * 3
    assert len(importers(path)) == 4
    assert caplog.messages == [
        f"procession: {why}: each rank gets a fresh interpreter, and nothing is preloaded [P403]"
    ]


def test_an_import_may_take_a_signal_that_faulthandler_has(tmp_path, modules, monkeypatch):
    monkeypatch.setenv("PYTHONFAULTHANDLER", "1")
    modules("early", "import signal; signal.signal(signal.SIGSEGV, print)")
    program = script(tmp_path, "import early; print('works')")
    outs, _ = run(program, preload=["early"], dir=tmp_path / "logs")
    assert outs == ["works\n"] * 3
