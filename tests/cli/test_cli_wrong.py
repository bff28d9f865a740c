"""Wrong command lines: one line that says what is wrong, code 2, and nothing was started."""

import os
import re

import pytest

from support import run_procession, run_python, uncoded, write

# Runs the command, and tells of every process that it starts (but for the forkserver, which boots
# while the command line is read), and of any that is left.
HOOKED = """
import atexit, os, sys
def look():
    try:
        os.waitpid(-1, os.WNOHANG)
        os.write(2, b"STARTED WHAT IS LEFT\\n")
    except ChildProcessError:
        pass
atexit.register(look)  # the first of all, so the last to be called
def tell(event, args):
    if event in ("os.fork", "os.forkpty", "os.posix_spawn", "subprocess.Popen", "os.exec"):
        if event != "os.posix_spawn" or "procession.forkserver.main:main" not in args[1]:
            os.write(2, f"STARTED A PROCESS: {event}\\n".encode())
sys.addaudithook(tell)
sys.argv[0] = "procession"
from procession.cli import main
sys.exit(main())
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A directory with a bit of everything, as the current one."""
    write(tmp_path / "good.py", "print('it ran')")
    write(tmp_path / "secret.py", "print('it ran')").chmod(0)
    (tmp_path / "empty").mkdir()
    (tmp_path / "a file").touch()
    (tmp_path / "book.ipynb").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


WRONG = {
    "no program": ([], "PROGRAM is missing"),
    "no program after options": (["-n", "2"], "PROGRAM is missing"),
    "no program but a value": (["--max-restarts", "good.py"], "for the value of --max-restarts"),
    "no program after the end of options": (["-n", "2", "--"], "PROGRAM is missing"),
    "no ranks": (["-n", "0", "good.py"], "-n"),
    "not a count": (["-n", "x", "good.py"], "'x'"),
    "negative": (["-n", "-1", "good.py"], "-n"),
    "half a rank": (["-n", "1.5", "good.py"], "'1.5'"),
    "more ranks than could be numbered": (["-n", "9" * 5000, "good.py"], "-n"),
    "words of mpirun": (["-np", "2", "good.py"], "-n"),
    "count in other digits": (["-n", "٣", "good.py"], "-n"),
    "no count": (["-n"], "-n/--nproc-per-node needs a value"),
    "no directory": (["--log_dir"], "--log-dir needs a value"),
    "value of a flag": (["--no-python=yes", "good.py"], "--no-python takes no value"),
    "a notebook": (["book.ipynb"], "'book.ipynb' is a notebook"),
    "missing script": (["missing.py"], "missing.py"),
    "missing script, path": (["./sub/missing.py"], "missing.py"),
    "missing program": (["no-such-program"], "no-such-program"),
    "missing program, path": (["./no-such-program"], "no-such-program"),
    "empty word": ([""], "''"),
    "directory": (["empty"], "__main__"),
    "directory as program": (["--no-python", "./empty"], "directory"),
    "unknown module": (["-m", "no_such_module_here"], "no_such_module_here"),
    "bad redirects": (["-r", "4", "good.py"], "-r/--redirects: "),
    "bad redirects by rank": (["-r", "0:3,1", "good.py"], "-r"),
    "no redirects": (["-r", "", "good.py"], "-r/--redirects: "),
    "bad tee": (["-t", "both", "good.py"], "-t/--tee: "),
    "bad filter": (["--local-ranks-filter", "a", "good.py"], "--local-ranks-filter: "),
    "stdin of no rank": (["--stdin", "9", "good.py"], "--stdin"),
    "stdin of nonsense": (["--stdin", "x", "good.py"], "--stdin"),
    "module that is no Python": (["-m", "--no-python", "good.py"], "--no-python"),
    "script that is no Python": (["--no-python", "--run-path", "good.py"], "cannot go together"),
    "script that is a module": (["-m", "--run-path", "good.py"], "cannot go together"),
    "bad template": (["-n", "2", "--prefix", "{nonsense}", "good.py"], "--prefix: '{nonsense}'"),
    "broken template": (["-n", "2", "--prefix", "{rank", "good.py"], "--prefix: "),
    "template with a bad format": (["-n", "2", "--prefix", "{rank:z}", "good.py"], "--prefix: "),
    "template with an attribute": (["-n", "2", "--prefix", "{rank.x}", "good.py"], "--prefix: "),
    "template with an item": (["-n", "2", "--prefix", "{rank[0]}", "good.py"], "--prefix: "),
    "log directory is a file": (["--log-dir", "a file", "good.py"], "--log-dir: 'a file'"),
    "log directory below a file": (["--log-dir", "a file/b", "good.py"], "--log-dir: 'a file'"),
    "unwritable log directory": (["--log-dir", "/proc/logs", "good.py"], "--log-dir '/proc/logs'"),
    "empty log directory": (["--log-dir", "", "good.py"], "--log-dir must name a directory"),
    "empty log directory after =": (["--log-dir=", "good.py"], "--log-dir must name a directory"),
    "unknown option": (["--no-such-option", "good.py"], "--no-such-option"),
    "abbreviated option": (["--local-ranks", "0", "good.py"], "--local-ranks"),
    "unknown start method": (["--start-method", "teleport", "good.py"], "teleport"),
    "bad timeout": (
        ["--shutdown-timeout", "soon", "good.py"],
        "--shutdown-timeout must be seconds",
    ),
    "negative timeout": (["--shutdown-timeout", "-1", "good.py"], "--shutdown-timeout must be"),
    "timeout that is no number": (["--shutdown-timeout", "nan", "good.py"], "--shutdown-timeout"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_command_line(here, case):
    words, named = WRONG[case]
    done = run_python("-c", HOOKED, "run", *words)
    assert "STARTED" not in done.stderr
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert done.stderr.startswith("procession run: error: ")
    assert named in done.stderr
    assert "ARGS" not in done.stderr
    assert not re.search(r"--\w+_", done.stderr)
    there = ["a file", "book.ipynb", "empty", "good.py", "secret.py"]
    assert sorted(os.listdir(here)) == there


MODULES = {
    "json.no_such_part": "there is no module 'json.no_such_part' in the package 'json'",
    "json.tool.part": "there is no module 'json.tool.part': 'json.tool' is no package",
    "collections": "'collections' is a package without a __main__.py",
    "package.inner": "'package.inner' is a package without a __main__.py",
    "spread.part": "there is no module 'spread.part' in the package 'spread'",
    "spread": "'spread' is a package without a __main__.py",
    "good.py": "there is no module 'good.py': 'good' is no package; to run the file good.py, leave "
    "out -m",
    "gone": "there is no module 'gone' on the path",
    "": "there is no module '' on the path",
    ".good": "there is no module '.good' on the path",
    "package.": "there is no module 'package.' in the package 'package'",
    "sys": "'sys' is built into Python, and no program",
}


@pytest.fixture
def packages(here):
    write(here / "package" / "__init__.py", "raise SystemExit('nothing is imported')")
    write(here / "package" / "inner" / "__init__.py", "")
    write(here / "spread" / "deep" / "er" / "__main__.py", "print('deep down')")
    write(here / "spread" / "deep" / "part.py", "print('a part')")


@pytest.mark.parametrize("module", MODULES)
def test_module_that_cannot_be_run(packages, module):
    done = run_python("-c", HOOKED, "run", "-m", module)
    assert (done.returncode, done.stdout) == (2, "")
    assert uncoded(done.stderr) == f"procession run: error: {MODULES[module]}\n"


@pytest.mark.parametrize(
    ("module", "said"), [("spread.deep.er", "deep down\n"), ("spread.deep.part", "a part\n")]
)
def test_module_of_a_package_without_init(packages, module, said):
    assert run_procession("run", "-m", module).stdout == said


def test_package_that_is_spread_over_two_places(here, monkeypatch):
    extend = "__path__ = __import__('pkgutil').extend_path(__path__, __name__)"
    write(here / "one" / "spread" / "__init__.py", extend)
    write(here / "two" / "spread" / "__init__.py", extend)
    write(here / "two" / "spread" / "part.py", "print('a part')")
    monkeypatch.setenv("PYTHONPATH", f"{here / 'one'}:{here / 'two'}")
    done = run_procession("run", "-m", "spread.part")
    assert done.stdout == "a part\n", done.stderr


def test_module_that_another_finder_knows(here, monkeypatch):
    # As some editable installs do it: a file in site-packages adds a finder.
    finder = """
        import importlib.util, sys

        class Finder:
            @staticmethod
            def find_spec(name, path, target=None):
                where = {"made": "package/__init__.py", "made.up": "package/up.py"}.get(name)
                return where and importlib.util.spec_from_file_location(name, where)

        sys.meta_path.append(Finder)
    """
    write(here / "sitecustomize.py", finder)
    write(here / "package" / "__init__.py", "")
    write(here / "package" / "up.py", "print('it was found')")
    monkeypatch.setenv("PYTHONPATH", str(here))
    done = run_procession("run", "-m", "made.up")
    assert done.stdout == "it was found\n", done.stderr


HINTS = {
    "executable of this directory": (["greet-here"], "write ./greet-here"),
    "script without its ending": (["good"], "did you mean good.py?"),
    "script that is misspelt": (["godo.py"], "did you mean good.py?"),
    "script in another directory": (["empty/../god.py"], "did you mean empty/../good.py?"),
    "script in no directory": (["nowhere/good.py"], "there is no directory 'nowhere'"),
    "script below a file": (["good.py/good.py"], "'good.py' cannot be read (not a directory)"),
    "command in one word": (["echo hello"], "words of their own"),
    "option that is misspelt": (["--log-dri", "x", "good.py"], "did you mean --log-dir?"),
    "option with underscores": (["--log_dri=x", "good.py"], "did you mean --log-dir?"),
    "beginning of an option": (["--nproc", "2", "good.py"], "did you mean --nproc-per-node?"),
    "option with one dash": (["-log-dir", "x", "good.py"], "did you mean --log-dir?"),
    "option of mpirun": (["-np", "2", "good.py"], "not 'p'; for -np write -n"),
    "option like no other": (["--quux", "good.py"], "see procession run --help"),
}


@pytest.mark.parametrize("case", HINTS)
def test_hint(here, case):
    write(here / "greet-here", "#!/bin/sh\necho hello\n").chmod(0o755)
    words, hint = HINTS[case]
    done = run_python("-c", HOOKED, "run", *words)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert uncoded(done.stderr.rstrip()).endswith(hint)


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is unreadable for root")
def test_unreadable_script(here):
    done = run_python("-c", HOOKED, "run", "secret.py")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "permission" in done.stderr


COMMANDS = {
    "unknown": (
        ["frob"],
        "procession: error: there is no command 'frob'; to run a program, write `procession run "
        "frob`",
    ),
    "misspelt": (
        ["rum", "good.py"],
        "procession: error: there is no command 'rum'; did you mean `procession run`?",
    ),
    "of other programs": (
        ["help"],
        "procession: error: there is no command 'help'; write `procession --help`, or `procession "
        "COMMAND --help`",
    ),
    "left out": (
        ["good.py"],
        "procession: error: there is no command 'good.py'; to run a program, write `procession "
        "run good.py`",
    ),
    "option of a run": (
        ["-n", "2", "good.py"],
        "procession: error: there is no option '-n'; the options of a run stand behind "
        "`procession run`",
    ),
    "unknown option": (
        ["--versoin"],
        "procession: error: there is no option '--versoin'; did you mean --version?",
    ),
    "option of doctor": (
        ["doctor", "--jsn"],
        "procession doctor: error: there is no option '--jsn'; did you mean --json?",
    ),
    "word for doctor": (
        ["doctor", "who"],
        "procession doctor: error: it takes no words beside its options, such as 'who'",
    ),
}


@pytest.mark.parametrize("case", COMMANDS)
def test_wrong_command(here, case):
    words, said = COMMANDS[case]
    done = run_python("-c", HOOKED, *words)
    assert (done.returncode, done.stdout, uncoded(done.stderr)) == (2, "", said + "\n")


def test_the_hook_sees_a_start(here):
    other = HOOKED.replace("main()", "os.posix_spawn('/bin/true', ['true'], {})")
    done = run_python("-c", other)
    assert done.stderr.splitlines() == ["STARTED A PROCESS: os.posix_spawn", "STARTED WHAT IS LEFT"]


def test_no_descriptors_left(here):
    # A start that fails half-way is no wrong command line: there is a report, and a code of 1.
    few = "import os, resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (12, 12));"
    few += "os.execv(sys.executable, [sys.executable, '-m', 'procession', *sys.argv[1:]])"
    done = run_python("-c", few, "run", "-n", "30", "good.py")
    assert done.returncode == 1, done.stderr
    if "it ran" in done.stdout:
        assert "was ended" in done.stderr
    assert "Too many open files" in done.stderr
    assert "Traceback" not in done.stderr


def test_interpreter_line_that_leads_nowhere(here):
    program = write(here / "lost", "#!/no/such/interpreter\n")
    program.chmod(0o755)
    done = run_procession("run", "-n", "2", "./lost")
    assert done.returncode == 1
    assert "lost failed: rank " in done.stderr
    assert "No such file or directory" in done.stderr
    assert "#!" in done.stderr
