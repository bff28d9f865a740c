"""Each kind of change that could make an import give something else is noticed, and named."""

import itertools
import os
import sys
import venv
from pathlib import Path

import pytest
from importing import Importer

import procession
from seams.agent import clock
from support import until, write

OLDER = 100_000_000  # ns, of which an interpreter knows its own start by 30 ms


@pytest.fixture(scope="module")
def importer():
    with Importer() as running:
        yield running


@pytest.fixture
def observed(importer, tmp_path):
    """Import a program, given as a text, and give its record."""
    sizes = itertools.count()  # another one each time: a .pyc knows the time in whole seconds only

    def observe(source):
        source += "\ndef value(): return None\n" + "#" * next(sizes)
        written = write(tmp_path / "program.py", source).stat().st_ctime_ns
        until(lambda: clock() > written, "it is older than its import")
        value, record = importer.ask([tmp_path], observed=True)
        assert value is None
        return record

    return observe


def test_a_part_of_a_namespace_becomes_a_package(importer, observed, tmp_path):
    # Both the directory above and the part itself are searched, in either order.
    names = [f"space{number}" for number in range(16)]
    for name in names:
        write(tmp_path / name / "part.py", "")
    record = observed("\n".join(f"import {name}.part" for name in names))
    assert importer.reason(record) == ""
    for name in names:
        write(tmp_path / name / "__init__.py", "WHAT = 1\n")
        assert importer.reason(record) == f"{tmp_path}/{name}/__init__.py is new"
        (tmp_path / name / "__init__.py").unlink()


def test_files_that_were_read(importer, observed, tmp_path):
    source = """
import os
here = os.path.dirname(__file__)
open(os.path.join(here, "data.txt")).close()
try:
    open(os.path.join(here, "absent.txt"))
except OSError:
    pass
with open(os.path.join(here, "cache.txt"), "w") as f:
    f.write("made by this import")
os.listdir(os.path.join(here, "listed"))
"""
    data = write(tmp_path / "data.txt", "1\n")
    (tmp_path / "listed").mkdir()
    record = observed(source)
    assert importer.reason(record) == ""
    write(tmp_path / "absent.txt", "")
    assert importer.reason(record) == f"{tmp_path}/absent.txt is new"
    (tmp_path / "absent.txt").unlink()
    write(tmp_path / "listed" / "more", "")
    assert importer.reason(record) == f"{tmp_path}/listed/more is new"
    (tmp_path / "listed" / "more").unlink()
    assert importer.reason(record) == ""
    # Of the same size, and with the same time.
    status = data.stat()
    data.write_text("2\n")
    os.utime(data, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert importer.reason(record) == f"{data} changed"
    data.unlink()
    assert importer.reason(record) == f"{data} was removed"


def test_variables_that_are_asked_for(importer, observed):
    source = """
import os
os.environ.get("FUZZ_A"), os.getenv("FUZZ_B"), "FUZZ_C" in os.environ, dict(os.environ)
"""
    record = observed(source)
    assert importer.reason(record, FUZZ_D="1") == ""
    for name in ("FUZZ_A", "FUZZ_B", "FUZZ_C"):
        assert importer.reason(record, **{name: "1"}) == f"the variable {name} changed"


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ("import os\nos.system('true')", "an import ran a program (os.system)"),
        (
            "import socket\ntry: socket.create_connection(('127.0.0.1', 1))\nexcept OSError: pass",
            "an import used the network",
        ),
        ("open(__file__).close()\nopen(__file__, 'r+').write('#')", "changed while"),
    ],
)
def test_what_nobody_can_foresee(observed, source, fault):
    assert fault in observed(source)["fault"]


def test_the_interpreter_and_what_is_installed(tmp_path):
    """A virtual environment of its own, in which each thing is changed in turn."""
    venv.create(tmp_path / "env", symlinks=True)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    site = tmp_path / "env" / "lib" / version / "site-packages"
    more = tmp_path / "more"
    write(site / "one.pth", f"{more}\n")
    written = (site / "one.pth").stat().st_ctime_ns
    # What is younger than the interpreter may have changed after this has read it.
    until(lambda: clock() > written + OLDER, "it is older than the interpreter")
    write(tmp_path / "program.py", "def value(): return 1\n")
    source = str(Path(procession.__file__).parents[1])
    with Importer(tmp_path / "env" / "bin" / "python", PYTHONPATH=source) as own:
        value, record = own.ask([tmp_path], observed=True)
        assert value == 1
        assert own.reason(record) == ""
        for made, content in (
            (site / "two.pth", "import os\n"),
            (site / "sitecustomize.py", "\n"),
            (site / "usercustomize" / "__init__.py", "\n"),
            (site / "json.py", ""),
        ):
            write(made, content)
            top = made if made.parent == site else made.parent
            # A `json.py` there would not be found before the standard library's: that is not asked.
            assert own.reason(record) == f"{top} is new"
            made.unlink()
            if top != made:
                top.rmdir()
        assert own.reason(record) == ""
        (site / "note.txt").write_text("not looked at")
        assert own.reason(record) == ""
        write(tmp_path / "env" / "pyvenv.cfg", "home = /nowhere\n")
        assert own.reason(record) == f"{tmp_path}/env/pyvenv.cfg changed"
