"""What was learned is stale, gone, garbage or unfit; and programs that end in every way."""

import json
import logging
import os
import signal
import textwrap
import threading

import pytest
from listedpackage import listed_package
from sides import ranks, script

import procession
import procession.forkserver
from support import failure_of, run_procession, write

LINE = "each rank gets a fresh interpreter, and nothing is preloaded"


@pytest.fixture
def package(tmp_path, monkeypatch):
    with listed_package(tmp_path, monkeypatch) as make:
        yield make


@pytest.fixture
def cache():
    return os.path.join(os.environ["XDG_CACHE_HOME"], "procession", "learned")


SOURCE = """
import os
import listed
print("begins")
import listed.{0} as late
seen = {{"early": late.imported_by != os.getpid(), "value": getattr(late, "value", 0)}}
"""


def program(directory, name="late", source=SOURCE):
    return procession.Script(str(script(directory, source.format(name))))


def launch(program, directory, **options):
    (rank,) = ranks(program, directory, nproc=1, **options)
    return rank


def early(program, directory, **options):
    return launch(program, directory, **options).seen["early"]


def known(cache):
    (name,) = os.listdir(cache)
    with open(os.path.join(cache, name)) as f:
        return json.load(f)["modules"]


def test_what_it_imports_late_is_early_the_next_time(tmp_path, package, cache):
    package(late="")
    it = program(tmp_path)
    assert not early(it, tmp_path)
    assert known(cache) == ["listed.late"]
    assert early(it, tmp_path)
    assert not early(it, tmp_path, preload=None)
    assert not early(it, tmp_path, preload=["listed"])
    assert not early(it, tmp_path, learn=False)
    os.unlink(os.path.join(cache, *os.listdir(cache)))
    assert not early(it, tmp_path, learn=False)
    assert os.listdir(cache) == []


def test_the_program_is_edited(tmp_path, package, cache):
    package(late="", other="")
    launch(program(tmp_path), tmp_path)
    edited = program(tmp_path, "other")
    assert not early(edited, tmp_path)
    assert early(edited, tmp_path)
    # It no longer imports the package: nothing of it is imported early.
    source = "import os\nprint('begins')\nimport listed, listed.other as late\n"
    source += "seen = {{'early': late.imported_by != os.getpid()}}"
    assert not early(program(tmp_path, source=source), tmp_path)


def test_the_package_changes(tmp_path, package):
    there = package(late="value = 1")
    it = program(tmp_path)
    assert launch(it, tmp_path).seen == {"early": False, "value": 1}
    procession.forkserver.close()
    (there / "__init__.py").write_text("version = 2\n")
    (there / "late.py").write_text("imported_by = 0\nvalue = 22\n")
    assert launch(it, tmp_path).seen["value"] == 22


def test_a_module_that_is_gone_is_missing_in_the_rank(tmp_path, package):
    there = package(late="")
    it = program(tmp_path)
    launch(it, tmp_path)
    (there / "late.py").unlink()
    procession.forkserver.close()
    failed = failure_of(it, nproc=1)
    assert failed.cause.type_name == "ModuleNotFoundError"
    assert "main.py" in failed.cause.traceback


LOGGERS = """
import os
import listed
print("begins")
{before}
import logging.config
logging.config.dictConfig({{"version": 1}})
import listed.late as late
late.log.warning("from late")
seen = {{"early": late.imported_by != os.getpid(), "disabled": late.log.disabled}}
"""


@pytest.mark.parametrize("before", ["", "import listed.other"])
def test_loggers_are_not_silenced_since_their_module_is_early(tmp_path, package, cache, before):
    """`dictConfig` disables all loggers that there are: those of learned modules must not be."""
    package(late="import logging\nlog = logging.getLogger(__name__)", other="")
    it = program(tmp_path, source=LOGGERS.replace("{before}", before))
    for _ in range(3):
        rank = launch(it, tmp_path)
        assert rank.seen == {"early": False, "disabled": False}
        assert "from late" in rank.err
        assert known(cache) == []


def test_where_the_directory_is_changed_nothing_is_learned(tmp_path, package, cache):
    package(late="import os\nplace = os.getcwd()", other="")
    source = """
import os
import listed
print("begins")
import listed.other
os.chdir("/")
import listed.late as late
seen = {"early": late.imported_by != os.getpid(), "place": late.place}
"""
    it = procession.Script(str(script(tmp_path, source)))
    for _ in range(2):
        assert launch(it, tmp_path).seen == {"early": False, "place": "/"}
        assert known(cache) == []


def test_a_run_begins_to_change_its_directory(tmp_path, package, cache):
    """That is seen one run late, and not forgotten by runs that do not."""
    package(late="import os\nplace = os.getcwd()")
    source = """
import os, sys
import listed
print("begins")
if sys.argv[1:]:
    os.chdir(sys.argv[1])
import listed.late as late
seen = {"early": late.imported_by != os.getpid(), "place": late.place}
"""
    it = procession.Script(str(script(tmp_path, source)))
    assert not launch(it, tmp_path).seen["early"]
    assert launch(it, tmp_path, args=("/",)).seen["early"]
    for _ in range(2):
        assert launch(it, tmp_path, args=("/",)).seen == {"early": False, "place": "/"}
        assert launch(it, tmp_path).seen == {"early": False, "place": os.getcwd()}


def test_a_helper_begins_to_set_loggers_up(tmp_path, package, cache):
    package(late="import logging\nlog = logging.getLogger(__name__)")
    helper = write(tmp_path / "helper.py", "")
    source = LOGGERS.replace("{before}", "import helper")
    source = source.replace("import logging.config\nlogging.config.", "helper.")
    helper.write_text("def dictConfig(_): pass")
    it = program(tmp_path, source=source)
    assert not launch(it, tmp_path).seen["early"]
    assert known(cache) == ["listed.late"]
    helper.write_text("from logging.config import dictConfig")
    launch(it, tmp_path)  # it may have begun only now: this is seen when it has ended
    assert known(cache) == []
    assert launch(it, tmp_path).seen == {"early": False, "disabled": False}


UNFIT = {
    "a thread": "import threading as t\nt.Thread(target=t.Event().wait, daemon=True).start()",
    "a connection": "import socket\nkept = socket.socketpair()",
    "a process": "import subprocess, sys\nkept = subprocess.Popen([sys.executable, '-c', ''])",
    "a signal": "import signal\nsignal.signal(signal.SIGUSR1, print)",
    "its directory": "os.chdir('/')",
    "its path": "import sys\nsys.path.append('/nowhere')",
    "a warning": "import warnings\nwarnings.warn('who imports me', stacklevel=2)",
    "a line": "print('early')",
    "a variable": "os.environ['SET'] = '1'",
}


@pytest.mark.parametrize("what", UNFIT)
def test_what_is_unfit_falls_back_and_is_forgotten(tmp_path, package, cache, caplog, what):
    package(late=UNFIT[what])
    it = program(tmp_path)
    told = what != "its directory"  # of which nothing is learned in the first place
    cold = launch(it, tmp_path, preload=None)
    with caplog.at_level(logging.WARNING, "procession"):
        first = launch(it, tmp_path)
        assert caplog.messages == []
        second = launch(it, tmp_path)
        assert len(caplog.messages) == told
        assert all(said.endswith(f"{LINE} [P403]") for said in caplog.messages)
        third, fourth = launch(it, tmp_path), launch(it, tmp_path)
        assert len(caplog.messages) == told
    assert known(cache) == []
    for rank in (first, second, third, fourth):
        assert (rank.seen, rank.out, rank.err) == (cold.seen, cold.out, cold.err)


@pytest.mark.parametrize("text", [b"", b"\xff{", b'{"format": 1, "modules": 5}', b"[" * 9999])
def test_garbage(tmp_path, package, cache, text):
    package(late="")
    it = program(tmp_path)
    launch(it, tmp_path)
    (name,) = os.listdir(cache)
    with open(os.path.join(cache, name), "wb") as f:
        f.write(text)
    assert not early(it, tmp_path)
    assert early(it, tmp_path)


@pytest.mark.parametrize("place", ["/proc/nowhere", "/dev/null", ""])
def test_a_cache_that_cannot_be_written(tmp_path, package, monkeypatch, place):
    package(late="")
    monkeypatch.setenv("XDG_CACHE_HOME", place)
    monkeypatch.delenv("HOME", raising=False)
    it = program(tmp_path)
    assert [early(it, tmp_path) for _ in range(2)] == [False, False]


def test_two_launchers_at_once(tmp_path, package, cache):
    package(late="")
    it = program(tmp_path)
    found = []
    threads = [threading.Thread(target=lambda: found.append(early(it, tmp_path))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert known(cache) == ["listed.late"]
    assert early(it, tmp_path)


ENDS = {
    "sys.exit(0)": (True, 0),
    "sys.exit()": (True, 0),
    "sys.exit(3)": (False, 3),
    "raise KeyError('x')": (False, 1),
    "os._exit(0)": (False, 0),
    "os._exit(4)": (False, 4),
    "os.kill(os.getpid(), 15)": (False, -signal.SIGTERM),
    "os.kill(os.getpid(), 9)": (False, -signal.SIGKILL),
}


@pytest.mark.parametrize("end", ENDS)
def test_ends(tmp_path, package, cache, end):
    """What is learned is told by a program that comes to a good end; nothing else is lost."""
    package(late="")
    source = f"import os, sys\nimport listed\nprint('x')\nimport listed.late\n{end}\n"
    it = procession.Script(str(write(tmp_path / "main.py", source)))
    learns, code = ENDS[end]
    for _ in range(2):
        if code == 0:
            procession.run(it, nproc=2)
        else:
            failed = failure_of(it, nproc=2)
            assert failed.exit_code == (code if code >= 0 else 128 - code)
    assert os.path.exists(cache) is learns


def test_ranks_that_differ_in_what_a_module_reads(tmp_path, package):
    package(late="")
    source = "import os\nimport json\nimport listed, listed.late as late\n"
    source += "seen = {{'early': late.imported_by != os.getpid()}}"
    it = program(tmp_path, source=source)
    for env, expected in (
        ({0: {"LISTED_X": "1"}, 1: {"LISTED_X": "2"}}, False),
        ({0: {"LISTED_X": "1"}, 1: {"LISTED_X": "1"}}, True),
        ({0: {"OTHER": "1"}, 1: {"OTHER": "2"}}, True),
    ):
        found = ranks(it, tmp_path, env=env)
        assert [r.seen["early"] for r in found] == [expected] * 2


def test_a_forkserver_of_another_program(tmp_path, package):
    """It is used again only if it has nothing that this program would not have by then."""
    package(a="", b="")
    told = "import sys\nseen = {{'there': sorted(n for n in sys.modules if 'listed' in n)}}"
    both = program(tmp_path / "1", source="import os, listed.a, listed.b\n" + told)
    one = program(tmp_path / "2", source="import os, listed.a\n" + told)
    other = program(tmp_path / "3", source="import os, listed.b, listed.a\n" + told)
    for it, names in ((both, "ab"), (one, "a"), (both, "ab"), (other, "ab")):
        rank = launch(it, tmp_path, cwd=tmp_path)
        assert rank.early
        assert rank.seen["there"] == ["listed", *(f"listed.{n}" for n in names)]


def test_the_directory_that_an_import_sees(tmp_path, package):
    package(late="value = os.getcwd()")
    source = "import listed.late as late\nseen = {{'value': late.value}}"
    it = program(tmp_path, source=source)
    for name in ("x", "y"):
        (tmp_path / name).mkdir()
        rank = launch(it, tmp_path, cwd=tmp_path / name)
        assert rank.early
        assert rank.seen["value"] == str(tmp_path / name)


def test_the_environment_that_an_import_sees(tmp_path, package):
    """A script that sets a variable first: what comes after it is not imported early."""
    package(late="value = os.environ.get('LISTED_X')")
    source = "import os\nos.environ['LISTED_X'] = '2'\nimport listed\nimport listed.late as late\n"
    source += "seen = {{'early': late.imported_by != os.getpid(), 'value': late.value}}"
    it = program(tmp_path, source=source)
    for _ in range(2):
        rank = launch(it, tmp_path, env={"LISTED_X": "1"})
        assert rank.seen == {"early": False, "value": "2"}


def test_local_modules_that_hide_others(tmp_path, package):
    package(late="")
    source = "import json\nimport listed\nimport listed.late as late\nimport os\n"
    source += "seen = {{'own': getattr(json, 'own', 0), 'early': late.imported_by != os.getpid()}}"
    it = program(tmp_path, source=source)
    write(tmp_path / "json.py", "own = 1\ndef dumps(x):\n    return repr(x)\n")
    done = run_procession("run", "-n", "1", it.path, cwd="/")
    assert "'own': 1, 'early': False" in done.stdout, done.stderr


AROUND = """
    import os
    import listed
    def around():
        from unittest import mock
        with mock.patch.dict(os.environ, {"LISTED_X": "2"}):
            import listed.late as late
        return late
    late = around()
    seen = {"early": late.imported_by != os.getpid(), "value": late.value}
"""


def test_a_variable_that_is_set_around_an_import(tmp_path, package, cache):
    package(late="value = os.environ.get('LISTED_X')", first="")
    it = procession.Script(str(script(tmp_path, "import listed.first\n" + textwrap.dedent(AROUND))))
    assert [launch(it, tmp_path).seen for _ in range(3)] == [{"early": False, "value": "2"}] * 3


def test_what_came_before_the_environment_was_written_to_is_learned(tmp_path, package, cache):
    package(late="value = 1", later="value = os.environ.get('LISTED_X')")
    source = """
        import os
        import listed
        print("begins")
        import listed.late as late
        os.environ["OTHER"] = "1"
        del os.environ["OTHER"]
        import listed.later as later
        seen = {"late": late.imported_by != os.getpid(), "later": later.imported_by != os.getpid()}
    """
    it = procession.Script(str(script(tmp_path, textwrap.dedent(source))))
    assert launch(it, tmp_path).seen == {"late": False, "later": False}
    assert known(cache) == ["listed.late"]
    assert launch(it, tmp_path).seen == {"late": True, "later": False}


def test_a_module_of_the_program_that_sets_a_variable_now(tmp_path, package, cache):
    """What was learned is wrong once at most: the program itself has not changed."""
    package(late="value = os.environ.get('LISTED_X')")
    write(tmp_path / "path" / "helper.py", "")
    source = f"""
        import sys
        import listed
        sys.path.append({str(tmp_path / "path")!r})
        import helper
        {{0}}
    """
    it = program(tmp_path, source=textwrap.dedent(source).format(SOURCE))
    assert [early(it, tmp_path) for _ in range(2)] == [False, True]
    write(tmp_path / "path" / "helper.py", "import os; os.environ['LISTED_X'] = '2'")
    launch(it, tmp_path)
    assert launch(it, tmp_path).seen == {"early": False, "value": "2"}
