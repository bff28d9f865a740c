"""What is foreseen is there in the first run, and the program sees what it sees without."""

import importlib
import json
import logging
import os
import sys

import pytest
from listedpackage import listed_package
from sides import Sides, ranks, same, script

import procession
from support import failure_of, run_procession, write

LINE = "each rank gets a fresh interpreter, and nothing is preloaded"

# A package as torch is: its `Heavy` imports the rest when it is used.
HEAVY = """import os
class Heavy:
    def __init__(self):
        import listed.late
        self.late = listed.late
"""
SOURCE = """
import os
import listed
from listed import Heavy


def use():
    return Heavy().late


late = use()
seen = {"early": late.imported_by != os.getpid(), "value": getattr(late, "value", None)}
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    with listed_package(tmp_path, monkeypatch) as make:

        def made(**submodules):
            there = make(**submodules)
            (there / "__init__.py").write_text(HEAVY)
            return there

        yield made


@pytest.fixture
def cache():
    return os.path.join(os.environ["XDG_CACHE_HOME"], "procession", "learned")


def program(directory, source=SOURCE):
    return procession.Script(str(script(directory, source)))


def launch(program, directory, **options):
    (rank,) = ranks(program, directory, nproc=1, **options)
    return rank


def early(program, directory, **options):
    return launch(program, directory, **options).seen["early"]


def test_the_first_run_has_it_early(tmp_path, package, cache):
    package(late="")
    it = program(tmp_path)
    assert early(it, tmp_path)
    assert not os.path.exists(cache)  # there was nothing to learn
    assert early(it, tmp_path)
    for options in ({"preload": None}, {"preload": ["listed"]}, {"learn": False}):
        assert not early(it, tmp_path, **options)


def test_what_is_learned_besides_is_added(tmp_path, package, cache):
    package(late="", more="")
    it = program(tmp_path, SOURCE + "\nimport listed.more")
    for _ in range(3):
        assert early(it, tmp_path)
        with open(os.path.join(cache, *os.listdir(cache))) as f:
            assert json.load(f)["modules"] == ["listed.late", "listed.more"]


def test_a_module_that_reads_a_variable_in_which_ranks_differ(tmp_path, package):
    package(late="value = os.environ.get('LISTED_X')")
    env = {0: {"LISTED_X": "1"}, 1: {"LISTED_X": "2"}}
    found = ranks(program(tmp_path), tmp_path, env=env)
    assert [r.seen for r in found] == [{"early": False, "value": v} for v in "12"]


CHANGES = {
    "a variable": "os.environ['LISTED_X'] = '2'",
    "a variable of C": "os.putenv('LISTED_X', '2'); os.environ._data[b'LISTED_X'] = b'2'",
    "the directory": "os.chdir('/')",
    "a mock": "import unittest.mock as m; m.patch.dict(os.environ, LISTED_X='2').start()",
    "the mask": "os.umask(0o77)",
    "code": "exec('import os; os.environ' + '[\"LISTED_X\"] = \"2\"')",
}
SEES = """
import os, sys, warnings
umask = os.umask(0)
os.umask(umask)
value = [os.environ.get("LISTED_X"), os.getcwd(), umask]
"""


@pytest.mark.parametrize("how", CHANGES)
@pytest.mark.parametrize("where", ["script", "function", "module"])
def test_a_program_that_changes_what_the_import_sees(tmp_path, package, how, where):
    package(late=SEES)
    change = CHANGES[how]
    if where == "function":
        change = f"def change():\n    {change}\nchange()"
    if where == "module":
        write(tmp_path / "helper.py", f"import os\ndef change():\n    {change}")
        change = "def f(): pass\nimport helper\nhelper.change()"
    it = program(tmp_path, SOURCE.replace("late = use()", f"{change}\nlate = use()"))
    sides = [launch(it, tmp_path, preload=p, env={"LISTED_X": "1"}) for p in (None, "auto")]
    assert sides[0].seen == sides[1].seen
    assert not sides[1].seen["early"]
    assert sides[1].early


def test_a_change_that_reading_does_not_find(tmp_path, package):
    """The run notices, and the next ones do not import it early."""
    package(late="value = os.environ.get('LISTED_X')")
    text = "listed.os.__dict__['envi' + 'ron']['LISTED_X'] = '2'\nlate = use()"
    it = program(tmp_path, SOURCE.replace("late = use()", text))
    assert [launch(it, tmp_path).seen["early"] for _ in range(3)] == [True, False, False]
    assert launch(it, tmp_path).seen["value"] == "2"


def test_a_local_module_that_hides_another(tmp_path, package):
    package(late="import json\nvalue = getattr(json, 'own', 0)")
    it = program(tmp_path)
    write(tmp_path / "json.py", "own = 1\ndef dumps(x):\n    return repr(x)\n")
    done = run_procession("run", "-n", "1", it.path, cwd="/")
    assert "'early': False, 'value': 1" in done.stdout, done.stderr


def test_a_local_package_of_the_same_name(tmp_path, package):
    package(late="")
    write(tmp_path / "listed" / "__init__.py", HEAVY)
    write(tmp_path / "listed" / "late.py", "import os\nimported_by = os.getpid()\nvalue = 'own'")
    assert launch(program(tmp_path), tmp_path).seen == {"early": False, "value": "own"}


def test_a_version_that_has_no_such_module(tmp_path, package, caplog):
    package()
    source = "import listed\nfrom listed import Heavy\ntry:\n    Heavy()\n"
    source += "except ImportError as e:\n    seen = {'error': str(e)}"
    with caplog.at_level(logging.WARNING, "procession"):
        sides = [launch(program(tmp_path, source), tmp_path, preload=p) for p in (None, "auto")]
    assert sides[0].seen == sides[1].seen == {"error": "No module named 'listed.late'"}
    assert sides[1].early
    assert caplog.messages == []


@pytest.mark.parametrize("fails", ["raise KeyError('x')", "import nowhere", "1 /"])
def test_a_module_that_fails(tmp_path, package, fails):
    package(late=fails)
    it = program(tmp_path)
    kinds = [failure_of(it, nproc=1, preload=p).cause for p in (None, "auto")]
    assert kinds[0].type_name == kinds[1].type_name
    assert kinds[0].traceback == kinds[1].traceback


UNFIT = {
    "a thread": "import threading as t\nt.Thread(target=t.Event().wait, daemon=True).start()",
    "a connection": "import socket\nkept = socket.socketpair()",
    "a process": "import subprocess, sys\nkept = subprocess.Popen([sys.executable, '-c', ''])",
    "a signal": "import signal\nsignal.signal(signal.SIGUSR1, print)",
    "a warning": "import warnings\nwarnings.warn('who imports me', stacklevel=2)",
    "a line": "print('early')",
    "a variable": "os.environ['SET'] = '1'",
}


@pytest.mark.parametrize("what", UNFIT)
def test_what_is_unfit_falls_back_and_is_not_foreseen_again(tmp_path, package, caplog, what):
    there = package(late=UNFIT[what])
    it = program(tmp_path)
    cold = launch(it, tmp_path, preload=None)
    with caplog.at_level(logging.WARNING, "procession"):
        later = [launch(it, tmp_path) for _ in range(3)]
    assert [m.endswith(f"{LINE} [P403]") for m in caplog.messages] == [True]
    for rank in later:
        assert (rank.seen, rank.out, rank.err) == (cold.seen, cold.out, cold.err)
    assert [rank.early for rank in later] == [False, True, True]
    procession.forkserver.close()
    (there / "late.py").write_text("import os\nimported_by = os.getpid()\n")
    (there / "__init__.py").write_text(f"version = 2\n{HEAVY}")  # another one may be better
    assert early(it, tmp_path)


ENDS = {
    "raise KeyError('before')": 1,
    "import sys; sys.exit(3)": 3,
    "os._exit(4)": 4,
    "os.kill(os.getpid(), 9)": 137,
    "open('/nowhere/x')": 1,
    "import nobody": 1,
}


@pytest.mark.parametrize("end", ENDS)
def test_a_program_that_fails_before_it_uses_it(tmp_path, package, end):
    package(late="import atexit\natexit.register(print, 'never')")
    it = program(tmp_path, SOURCE.replace("late = use()", f"{end}\nlate = use()"))
    failed = [failure_of(it, nproc=2, preload=p) for p in (None, "auto")]
    assert [f.exit_code for f in failed] == [ENDS[end]] * 2
    if failed[0].cause.traceback:
        assert failed[0].cause.traceback == failed[1].cause.traceback


def test_a_program_that_does_not_use_it(tmp_path, package):
    """What can be seen of it is that it is there."""
    package(late="LISTED = 1")
    source = SOURCE.replace("late = use()", "late = None").replace("late.imported_by", "0")
    source += """
import gc
import logging
import threading
seen = {
    "names": sorted(n for n in vars() if not n.startswith("_")),
    "variables": sorted(os.environ),
    "collector": [gc.isenabled(), gc.get_threshold()],
    "threads": threading.active_count(),
    "package": sorted(n for n in vars(listed) if not n.startswith("_") and n != "late"),
}
"""
    it = program(tmp_path, source)
    found = Sides(ranks(it, tmp_path, preload=None), ranks(it, tmp_path), ranks(it, tmp_path))
    assert all(r.early for r in found.auto)
    same(found)


FUNCTION = """
import os
import listed
from listed import Heavy


def work():
    {0}
    late = Heavy().late
    return late.imported_by != os.getpid(), getattr(late, "value", None)


nested = lambda: (lambda: work())()
"""


@pytest.fixture
def functions(tmp_path, package, monkeypatch):
    """Give a function of a module that this process has imported, by what it does at first."""

    def make(first="pass", name="work"):
        write(tmp_path / "own" / "workmodule.py", FUNCTION.format(first))
        monkeypatch.syspath_prepend(str(tmp_path / "own"))
        for module in ("workmodule", "listed", "listed.late"):
            monkeypatch.delitem(sys.modules, module, raising=False)
        return getattr(importlib.import_module("workmodule"), name)

    yield make
    for module in ("workmodule", "listed", "listed.late"):
        sys.modules.pop(module, None)


@pytest.mark.parametrize("name", ["work", "nested"])
def test_a_function(package, functions, name):
    package(late="value = os.environ.get('LISTED_X')")
    work = functions(name=name)
    results = [procession.run(work, nproc=1, preload=p)[0] for p in (None, "auto", "auto")]
    assert results == [(False, None), (True, None), (True, None)]


def test_a_function_that_changes_what_the_import_sees(package, functions):
    package(late="value = os.environ.get('LISTED_X')")
    work = functions("os.environ['LISTED_X'] = '2'")
    for preload in (None, "auto", "auto"):
        assert procession.run(work, nproc=1, preload=preload)[0] == (False, "2")


def test_a_function_whose_source_is_not_there(package, functions):
    """As one of a notebook's cells."""
    package(late="")
    heavy = functions().__globals__["Heavy"]
    names = {"Heavy": heavy, "os": os}
    cell = "def f():\n    return Heavy().late.imported_by != os.getpid()"
    exec(compile(cell, "<cell>", "exec"), names)
    assert procession.run(names["f"], nproc=1)[0] is False
