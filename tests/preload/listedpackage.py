"""An installed package that is on the list of safe ones, for tests that need one."""

from contextlib import contextmanager

from seams.preload import safe
from support import write


@contextmanager
def listed_package(tmp_path, monkeypatch):
    """Give a function that makes the package; its submodules note who imports them.

    The list says that it imports `listed.late` when the program first uses its `Heavy`.
    """
    entry = safe._Entry(reads="LISTED_*", later={"Heavy": "listed.late"})
    monkeypatch.setitem(safe._LIST, "listed", entry)
    monkeypatch.setitem(safe._LIST, "listed.late", safe._Entry(sets="LISTED_SET"))
    safe.verdict.cache_clear()
    safe._made.cache_clear()
    place = tmp_path / "site-packages"
    monkeypatch.setenv("PYTHONPATH", str(place))
    monkeypatch.syspath_prepend(str(place))

    def make(**submodules):
        write(place / "listed" / "__init__.py", "")
        for name, source in submodules.items():
            write(
                place / "listed" / f"{name}.py", "import os\nimported_by = os.getpid()\n" + source
            )
        return place / "listed"

    yield make
    safe.verdict.cache_clear()
    safe._made.cache_clear()
