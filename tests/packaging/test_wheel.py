"""What people install: the wheel, in an environment that has nothing else."""

import os
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from support import run_program

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.timeout(180)


def done(*argv, **options):
    """Run a program to its end, which must be good; gives what it said."""
    ran = run_program(*argv, timeout=120, **options)
    assert ran.returncode == 0, (argv, ran.stdout, ran.stderr)
    return ran.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Build it with what the environment of the tests has: no network is needed."""
    pytest.importorskip("hatchling")
    place = tmp_path_factory.mktemp("wheel")
    words = ("wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", place, ROOT)
    done(sys.executable, "-m", "pip", *words)
    (made,) = place.iterdir()
    return made


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """Give the directory of the commands of an environment that has the wheel alone."""
    place = tmp_path_factory.mktemp("empty") / "venv"
    done(sys.executable, "-m", "venv", "--without-pip", place)
    python = place / "bin" / "python"
    words = ("install", "--quiet", "--no-deps", "--no-index", wheel)
    done(sys.executable, "-m", "pip", "--python", python, *words)
    return place / "bin"


def clean():
    """Give an environment that leads to no other installation."""
    ours = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
    return {name: value for name, value in os.environ.items() if name not in ours}


def test_the_wheel_has_the_package_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = {n for n in archive.namelist() if ".dist-info/" not in n}
    shared = {n.partition(".data/data/")[2] for n in names if ".data/" in n}
    names = {n for n in names if ".data/" not in n}
    source = ROOT / "src"
    listed = done("git", "-C", ROOT, "ls-files", "--cached", "--others", "--exclude-standard",
                  "src").splitlines() if (ROOT / ".git").exists() else None  # fmt: skip
    files = listed or [str(p.relative_to(ROOT)) for p in source.rglob("*") if p.suffix != ".pyc"]
    expected = {f.removeprefix("src/") for f in files if (ROOT / f).is_file()}
    assert names == expected
    kept = ROOT / "packaging" / "share"
    assert shared == {f"share/{p.relative_to(kept)}" for p in kept.rglob("*") if p.is_file()}
    assert "share/man/man1/procession.1" in shared
    assert "procession/py.typed" in names


def test_what_the_wheel_asks_for(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        said = Parser().parsestr(archive.read(name).decode())
    asked = [line for line in said.get_all("Requires-Dist") if "extra ==" not in line]
    assert {line.partition(">")[0] for line in asked} == {"cloudpickle", "rich", "tblib", "tomli"}
    assert said["Requires-Python"] == ">=3.10"


def test_the_command_runs_from_an_environment_of_its_own(installed, tmp_path):
    where = "import procession; print(procession.__file__)"
    options = {"cwd": tmp_path, "env": clean()}
    assert done(installed / "python", "-c", where, **options).startswith(str(installed.parent))
    command = installed / "procession"
    out = done(command, "run", "-n", 2, "sh", "-c", "echo rank $RANK", **options)
    assert sorted(out.splitlines()) == ["[0] rank 0", "[1] rank 1"]
    (tmp_path / "t.py").write_text("import os; print('of', os.environ['WORLD_SIZE'])")
    assert done(command, "run", "t.py", **options) == "of 1\n"
    assert "procession" in done(command, "--version", **options)
    assert "usage" in done(installed / "procession-torchrun", "--help", **options).lower()
