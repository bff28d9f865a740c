"""Wrong command lines: one line that says what is wrong, code 2, and nothing was started."""

import os

import pytest

from support import run_python, write

# Runs the command, and tells of every process that it starts.
HOOKED = """
import os, sys
def tell(event, args):
    if event in ("os.fork", "os.forkpty", "os.posix_spawn", "subprocess.Popen", "os.exec"):
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
    monkeypatch.chdir(tmp_path)
    return tmp_path


WRONG = {
    "no program": ([], "PROGRAM"),
    "no program after options": (["-n", "2"], "PROGRAM"),
    "no ranks": (["-n", "0", "good.py"], "-n"),
    "not a count": (["-n", "x", "good.py"], "'x'"),
    "negative": (["-n", "-1", "good.py"], "-n"),
    "half a rank": (["-n", "1.5", "good.py"], "'1.5'"),
    "count in other digits": (["-n", "٣", "good.py"], "-n"),
    "no count": (["-n"], "-n"),
    "missing script": (["missing.py"], "missing.py"),
    "missing script, path": (["./sub/missing.py"], "missing.py"),
    "missing program": (["no-such-program"], "no-such-program"),
    "missing program, path": (["./no-such-program"], "no-such-program"),
    "empty word": ([""], "''"),
    "directory": (["empty"], "__main__"),
    "directory as program": (["--no-python", "./empty"], "directory"),
    "unknown module": (["-m", "no_such_module_here"], "no_such_module_here"),
    "bad redirects": (["-r", "4", "good.py"], "-r"),
    "bad redirects by rank": (["-r", "0:3,1", "good.py"], "-r"),
    "redirects of a rank that is not there": (["-n", "2", "-r", "2:3", "good.py"], "2"),
    "bad tee": (["-t", "both", "good.py"], "-t"),
    "bad filter": (["--local-ranks-filter", "a", "good.py"], "filter"),
    "empty filter": (["--local-ranks-filter", "", "good.py"], "filter"),
    "filter of a rank that is not there": (
        ["-n", "2", "--local-ranks-filter", "5", "good.py"],
        "5",
    ),
    "stdin of no rank": (["--stdin", "9", "good.py"], "--stdin"),
    "stdin of nonsense": (["--stdin", "x", "good.py"], "--stdin"),
    "module that is no Python": (["-m", "--no-python", "good.py"], "--no-python"),
    "bad template": (["-n", "2", "--prefix", "{nonsense}", "good.py"], "nonsense"),
    "broken template": (["-n", "2", "--prefix", "{rank", "good.py"], "prefix"),
    "template with a bad format": (["-n", "2", "--prefix", "{rank:z}", "good.py"], "prefix"),
    "template with an attribute": (["-n", "2", "--prefix", "{rank.x}", "good.py"], "prefix"),
    "template with an item": (["-n", "2", "--prefix", "{rank[0]}", "good.py"], "prefix"),
    "log directory is a file": (["--log-dir", "a file", "good.py"], "a file"),
    "log directory below a file": (["--log-dir", "a file/logs", "good.py"], "a file"),
    "unwritable log directory": (["--log-dir", "/proc/logs", "good.py"], "/proc/logs"),
    "empty log directory": (["--log-dir", "", "good.py"], "log"),
    "unknown option": (["--no-such-option", "good.py"], "--no-such-option"),
    "abbreviated option": (["--local-ranks", "0", "good.py"], "--local-ranks"),
    "unknown start method": (["--start-method", "teleport", "good.py"], "teleport"),
    "bad timeout": (["--shutdown-timeout", "soon", "good.py"], "soon"),
    "negative timeout": (["--shutdown-timeout", "-1", "good.py"], "-1"),
    "timeout that is no number": (["--shutdown-timeout", "nan", "good.py"], "nan"),
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
    assert sorted(os.listdir(here)) == ["a file", "empty", "good.py", "secret.py"]


# To know more of a module than its first name, its package has to be imported: by a rank.
@pytest.mark.parametrize("module", ["json.no_such_part", "collections", "good.py"])
def test_module_that_cannot_be_run(here, module):
    done = run_python("-m", "procession", "run", "-n", "2", "-m", module)
    assert done.returncode == 1
    assert f"{module} failed: rank " in done.stderr
    assert "o module named" in done.stderr or "Try using 'good'" in done.stderr
    assert "Traceback" not in done.stderr


def test_executable_of_the_current_directory_has_a_path(here):
    write(here / "greet-here", "#!/bin/sh\necho hello\n").chmod(0o755)
    done = run_python("-c", HOOKED, "run", "greet-here")
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert "greet-here" in done.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is unreadable for root")
def test_unreadable_script(here):
    done = run_python("-c", HOOKED, "run", "secret.py")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "permission" in done.stderr


@pytest.mark.parametrize(
    ("words", "named"),
    [(["launch", "good.py"], "launch"), (["--nonsense"], "--nonsense"), (["good.py"], "good.py")],
    ids=lambda v: " ".join(v) if isinstance(v, list) else "",
)
def test_wrong_command(here, words, named):
    done = run_python("-c", HOOKED, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert "STARTED" not in done.stderr
    assert named in done.stderr
    assert "procession" in done.stderr


def test_the_hook_sees_a_start(here):
    done = run_python("-c", HOOKED, "run", "good.py")
    assert done.stdout == "it ran\n"
    assert "STARTED" in done.stderr


def test_no_descriptors_left(here):
    # A start that fails half-way is no wrong command line: there is a report, and a code of 1.
    few = "import os, resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (12, 12));"
    few += "os.execv(sys.executable, [sys.executable, '-m', 'procession', *sys.argv[1:]])"
    done = run_python("-c", few, "run", "-n", "30", "good.py")
    assert done.returncode == 1, done.stderr
    assert "it ran" not in done.stdout or "was ended" in done.stderr
    assert "Too many open files" in done.stderr
    assert "Traceback" not in done.stderr


def test_interpreter_line_that_leads_nowhere(here):
    program = write(here / "lost", "#!/no/such/interpreter\n")
    program.chmod(0o755)
    done = run_python("-m", "procession", "run", "-n", "2", "./lost")
    assert done.returncode in (1, 2, 126, 127)
    assert "lost failed: rank " in done.stderr
    assert "No such file or directory" in done.stderr
    assert "#!" in done.stderr
