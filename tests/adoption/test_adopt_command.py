"""`procession adopt`: the program takes the command's place, and nothing else about it changes."""

import os
import sys
import venv

import pytest
from standintorch import make

from support import PROCESSION, run_procession, write

pytestmark = pytest.mark.timeout(170)  # seconds at most, where nothing else runs

ADOPTED = """
import os, subprocess, sys
from torch.multiprocessing import start_processes
got = start_processes(lambda rank: None)
print(sys.argv[0].rpartition("/")[2], *sys.argv[1:], "ours" if got is None else "torch's")
sys.stdout.flush()
assert not [path for path in sys.path if "startup" in path], sys.path
if "parent" in sys.argv:
    sys.exit(subprocess.call([sys.executable, __file__, "child"]))
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    write(make(tmp_path) / "main.py", ADOPTED)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    return tmp_path


def adopt(*words, code=0, **options):
    done = run_procession("adopt", *words, timeout=150, **options)
    assert done.returncode == code, (done.stdout, done.stderr)
    return done


def test_programs_of_all_kinds(place):
    """A script, a module, an interpreter, a console script."""
    script = write(place / "tool", f"#!{sys.executable}\nimport main")
    script.chmod(0o755)
    assert adopt("--", "main.py", "a").stdout == "main.py a ours\n"
    assert adopt("-m", "main", "--child").stdout == "main.py --child ours\n"
    assert adopt(sys.executable, "main.py").stdout == "main.py ours\n"
    words = (sys.executable, "-Wignore", "-X", "dev", "-um", "main", "-I", "-c")
    assert adopt("--", *words).stdout == "main.py -I -c ours\n"
    assert adopt("--", *PROCESSION, "adopt", "main.py").stdout == "main.py ours\n"
    assert adopt("--", sys.executable, "-c", "import main", "-E").stdout == "-c -E ours\n"
    env = {**os.environ, "PATH": f"{place}:{os.environ['PATH']}", "PYTHONPATH": str(place)}
    assert adopt("--", "tool", "b", env=env).stdout == "tool b ours\n"
    (place / "elsewhere" / "tool").mkdir(parents=True)  # a clone of its sources, say
    told = adopt("--", "tool", "b", env=env, cwd=place / "elsewhere")
    assert told.stdout == "tool b ours\n"


def test_children_adopt_too(place):
    assert adopt("main.py", "parent").stdout == "main.py parent ours\nmain.py child ours\n"
    words = ("sh", "-c", f"{sys.executable} main.py parent")
    assert adopt("--", *words).stdout == "main.py parent ours\nmain.py child ours\n"
    assert adopt("--", sys.executable, "-I", "-c", "pass").stderr == ""


def test_the_environment_is_the_users_own(place):
    """PYTHONPATH, the user's own sitecustomize, and the exit code."""
    write(place / "own/sitecustomize.py", "import sys; sys.customized = True")
    write(
        place / "main.py",
        """
        import os, sitecustomize, sys
        print(sys.customized, *os.environ["PYTHONPATH"].split(":")[1:])
        print(sitecustomize.__file__)
        sys.exit(7)
        """,
    )
    env = {**os.environ, "PYTHONPATH": str(place / "own")}
    done = adopt("main.py", env=env, code=7)
    own = place / "own"
    assert done.stdout == f"True {own}\n{own}/sitecustomize.py\n"
    assert done.stderr == ""


def test_an_interpreter_without_procession(place):
    """One line says so; the program runs as it would."""
    venv.create(place / "other", symlinks=True)
    python = place / "other/bin/python"
    done = adopt("--", python, "main.py")
    assert done.stdout == "main.py torch's\n"
    assert "cannot import procession" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "PROGRAM is missing"),
        (["--", "missing.py"], "there is no script 'missing.py'"),
        (["-m", "missing_module"], "there is no module 'missing_module'"),
        (["no-such-program"], "there is no script or program 'no-such-program'"),
        (["--child", "main.py"], "--child"),
    ],
)
def test_what_is_refused(place, words, said):
    done = adopt(*words, code=2)
    assert said in done.stderr
    assert done.stdout == ""
