"""Where modules would be found, compared with where Python does find them."""

import importlib.util
import os
import sys
import zipfile

import pytest
from preloadprograms import REST, Programs

from seams.preload import Found, ModuleKind, Search

NAMES = [
    "os",
    "sys",
    "json",
    "json.decoder",
    "encodings",
    "encodings.utf_8",
    "importlib.metadata",
    "math",
    "_json",
    "xml.etree.ElementTree",
    "numpy",
    "numpy.linalg",
    "numpy.random._generator",
    "torch",
    "torch.nn.functional",
    "torch._C",
    "sklearn.datasets",
    "scipy.linalg.lapack",
    "nowhere",
    "json.nowhere",
    "typing_extensions",
    "abc",
    "asyncio.events",
    "curses",
    "_ctypes",
]


@pytest.fixture
def programs(tmp_path):
    return Programs(tmp_path / "program")


@pytest.mark.parametrize("name", NAMES)
def test_agrees_with_python(name):
    try:
        spec = importlib.util.find_spec(name)
    except ImportError:
        spec = None
    found = Search(sys.path).find(name)
    if spec is None:
        assert found.kind is ModuleKind.MISSING
        return
    if not spec.has_location or found.file == "":
        assert found == Found(ModuleKind.STANDARD)  # built in or frozen
        return
    assert os.path.samefile(found.file, spec.origin)
    assert tuple(spec.submodule_search_locations or ()) == found.search
    installed = name.partition(".")[0] not in sys.stdlib_module_names
    assert found.kind is (ModuleKind.INSTALLED if installed else ModuleKind.STANDARD)


def test_the_order_of_the_path_and_of_suffixes(programs, tmp_path):
    later = Programs(tmp_path / "later")
    programs(**{"both": "", "package/__init__": "", "spaced/inner": ""})
    later(**dict.fromkeys(("both", "only", "package", "spaced/__init__", "half/there"), ""))
    (later.directory / "compiled.pyc").write_bytes(b"")
    (later.directory / "both.pyc").write_bytes(b"")
    (later.directory / "directory.py").mkdir()
    search = Search([str(programs.directory), str(later.directory), *REST])
    first, second = str(programs.directory), str(later.directory)
    assert search.find("both").file == f"{first}/both.py"
    assert search.find("only").file == f"{second}/only.py"
    assert search.find("package") == Found(
        ModuleKind.LOCAL, f"{first}/package/__init__.py", (f"{first}/package",)
    )
    # A directory without __init__ gives way to any module that comes later.
    assert search.find("spaced").file == f"{second}/spaced/__init__.py"
    assert search.find("spaced.inner").kind is ModuleKind.MISSING
    assert search.find("half") == Found(ModuleKind.LOCAL, "", (f"{second}/half",))
    assert search.find("half.there").file == f"{second}/half/there.py"
    assert search.find("compiled").file == f"{second}/compiled.pyc"
    assert not search.find("compiled").has_source
    assert search.find("directory").kind is ModuleKind.MISSING


def test_what_an_archive_may_hold_is_not_found(programs, tmp_path):
    programs(after="")
    archive = tmp_path / "all.zip"
    with zipfile.ZipFile(archive, "w") as z:
        z.writestr("after.py", "")
    search = Search([str(archive), str(programs.directory), *REST])
    assert search.find("after").kind is ModuleKind.MISSING
    assert search.find("sys").kind is ModuleKind.STANDARD
    assert Search([str(tmp_path / "gone.zip"), str(programs.directory)]).find("after").file


@pytest.mark.parametrize("name", ["json", "numpy", "random", "triton", "queue"])
def test_a_module_of_anothers_name_is_in_the_way(programs, name):
    programs(**{name: "", "test": "", "this": "", "data": "", "utils/__init__": ""})
    search = Search(programs.path)
    assert search.in_the_way(["numpy"]) == (name, str(programs.directory / f"{name}.py"))


def test_what_nothing_relies_on_is_not_in_the_way(programs):
    names = "train utils/__init__ imp test tests/json models/numpy sys"
    if sys.version_info >= (3, 11):  # which has them in itself
        names += " os abc"
    programs(**dict.fromkeys(names.split(), ""))
    (programs.directory / "json").mkdir()  # gives way to the standard library's
    (programs.directory / "queue.txt").touch()
    assert Search(programs.path).in_the_way(["numpy"]) is None
