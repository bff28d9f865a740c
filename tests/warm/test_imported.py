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
def watched(importer, tmp_path):
    """Import a package, whose source is given, and give what decided that."""
    sizes = itertools.count()  # another one each time: a .pyc knows the time in whole seconds only

    def watch(source):
        source += "\ndef value(): return None\n" + "#" * next(sizes)
        written = write(tmp_path / "program" / "__init__.py", source).stat().st_ctime_ns
        until(lambda: clock() > written + OLDER, "it is older than its import")
        value, imported = importer.ask([tmp_path], watched=True)
        assert value is None
        return imported

    return watch


def test_a_part_of_a_namespace_becomes_a_package(importer, watched, tmp_path):
    # Both the directory above and the part itself are searched, in either order.
    names = [f"space{number}" for number in range(16)]
    for name in names:
        write(tmp_path / name / "part.py", "")
    imported = watched("\n".join(f"import {name}.part" for name in names))
    assert importer.reason(imported) == ""
    for name in names:
        write(tmp_path / name / "__init__.py", "WHAT = 1\n")
        assert importer.reason(imported) == f"{tmp_path}/{name}/__init__.py is new"
        (tmp_path / name / "__init__.py").unlink()


def test_files_of_packages(importer, watched, tmp_path):
    data = write(tmp_path / "program" / "data.txt", "1\n")
    imported = watched("")
    assert importer.reason(imported) == ""
    write(tmp_path / "program" / "absent.txt", "")
    assert importer.reason(imported) == f"{tmp_path}/program/absent.txt is new"
    (tmp_path / "program" / "absent.txt").unlink()
    assert importer.reason(imported) == ""
    # Of the same size, and with the same time.
    status = data.stat()
    data.write_text("2\n")
    os.utime(data, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert importer.reason(imported) == f"{data} changed"
    data.unlink()
    assert importer.reason(imported) == f"{data} was removed"


def test_a_module_that_fails_where_the_program_goes_on(importer, watched, tmp_path):
    broken = write(tmp_path / "broken.py", "raise ImportError\n")
    imported = watched("try: import broken\nexcept ImportError: pass")
    broken.write_text("raise ValueError\n")
    assert importer.reason(imported) == f"{broken} changed"


def test_the_search_path(importer, watched, tmp_path):
    imported = watched("")
    write(tmp_path / "log.txt", "")
    write(tmp_path / "no-module" / "x.py", "")
    assert importer.reason(imported) == ""
    for name in ("module.py", "package", "new-1.dist-info", "more.pth"):
        (tmp_path / name).mkdir()
        assert importer.reason(imported) == f"{tmp_path}/{name} is new"
        (tmp_path / name).rmdir()
    assert importer.reason(imported) == ""


def test_what_is_installed(importer, watched, tmp_path):
    metadata = write(tmp_path / "fake-1.dist-info" / "METADATA", "Name: fake\n")
    imported = watched("")
    write(metadata.with_name("new"), "Name: other\n")
    assert importer.reason(imported) == f"{metadata.parent} changed"


def test_variables_that_are_asked_for(importer, watched):
    source = """
import os
os.environ.get("FUZZ_A"), os.getenv("FUZZ_B"), "FUZZ_C" in os.environ, dict(os.environ)
"""
    imported = watched(source)
    assert importer.reason(imported, FUZZ_D="1") == ""
    for name in ("FUZZ_A", "FUZZ_B", "FUZZ_C"):
        assert importer.reason(imported, **{name: "1"}) == f"the variable {name} changed"


def test_variables_that_are_gone_through_or_set(importer, watched):
    walk = "[*os.environ.items()], [*os.environ.values()], [*os.environ], os.environ['HOME']"
    imported = watched(f"import os\n{walk}\nos.environ['FUZZ_B'] = '1'\n")
    assert importer.reason(imported, FUZZ_A="1", FUZZ_B="1", PATH="/") == ""
    for name, said in (("PROGRAM_A", "PROGRAM_*"), ("HOME", "HOME"), ("FUZZ_B", "FUZZ_B")):
        changed = {"FUZZ_B": "1", name: "2"}
        assert importer.reason(imported, **changed) == f"the variable {said} changed"


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ("open(__file__, 'r+').write('#')", "program/__init__.py changed while"),
        ("import os\nos.remove(__file__)", "program/__init__.py was removed while"),
    ],
)
def test_what_was_changed_by_its_import(watched, source, fault):
    assert fault in watched(source).fault


def test_what_cannot_be_imported(importer, tmp_path):
    write(tmp_path / "program.py", "import nothing_of_this_name\n")
    _, imported = importer.ask([tmp_path], watched=True)
    assert imported.fault == "it could not import program"


def test_the_interpreter_and_what_is_installed(tmp_path):
    """A virtual environment of its own, in which each thing is changed in turn."""
    venv.create(tmp_path / "env", symlinks=True)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    site = tmp_path / "env" / "lib" / version / "site-packages"
    more = tmp_path / "more"
    write(tmp_path / "program.py", "def value(): return 1\n")
    write(site / "one.pth", f"{more}\n")
    written = (site / "one.pth").stat().st_ctime_ns
    # What is younger than the interpreter may have changed after this has read it.
    until(lambda: clock() > written + OLDER, "it is older than the interpreter")
    source = str(Path(procession.__file__).parents[1])
    with Importer(tmp_path / "env" / "bin" / "python", PYTHONPATH=source) as own:
        value, imported = own.ask([tmp_path], watched=True)
        assert value == 1
        assert own.reason(imported) == ""
        for made, content in (
            (site / "two.pth", "import os\n"),
            (site / "sitecustomize.py", "\n"),
            (site / "usercustomize" / "__init__.py", "\n"),
            (site / "json.py", ""),
        ):
            write(made, content)
            top = made if made.parent == site else made.parent
            # A `json.py` there would not be found before the standard library's: that is not asked.
            assert own.reason(imported) == f"{top} is new"
            made.unlink()
            if top != made:
                top.rmdir()
        assert own.reason(imported) == ""
        (site / "note.txt").write_text("not looked at")
        assert own.reason(imported) == ""
        write(tmp_path / "env" / "pyvenv.cfg", "home = /nowhere\n")
        assert own.reason(imported) == f"{tmp_path}/env/pyvenv.cfg changed"
