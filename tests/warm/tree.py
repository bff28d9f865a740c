"""A program in a temporary directory, whose imports can be decided in many ways, and its changes.

`value()` of its package `program` is a text that tells of every file that was read.
"""

import os
import random
import shutil
import time
import zipfile

from conftest import until

OLD = 0.06  # seconds; see TICK of `agent.imported`, and the ticks of the age of processes
PROGRAM = """
import os
def tried(name):
    try:
        return __import__(name, fromlist=("WHAT",)).WHAT
    except (ImportError, AttributeError) as e:
        return "%s: %s" % (type(e).__name__, e)
try:
    import space.part
    part = space.part.WHAT, len(list(space.__path__))
except (ImportError, AttributeError):
    part = "none"
from importlib.metadata import entry_points, PackageNotFoundError, version
try:
    dist = version("fake")
except PackageNotFoundError:
    dist = "none"
here = os.path.dirname(__file__)
try:
    with open(os.path.join(here, "data.json")) as f:
        data = f.read()
except OSError:
    data = "none"
found = [*map(tried, ("b", "pkg", "pkg.sub", "plug", "zipped.inner")), part, dist, data]
def value():
    return "%s %r" % (WHAT, found)
WHAT = "00000000"
"""
NAMES = ("program", "b", "plug", "pkg", "c")
PROGRAMS = os.path.join("program", "__init__.py")


class Tree:
    """The files, and random changes of them."""

    def __init__(self, root, seed):
        self.root = str(root)
        self.random = random.Random(seed)
        self.number = 0
        self.saved = []  # (path, content, status) of earlier versions
        self.path = [self._at(d) for d in ("proj", "early", "site", "lib.zip")]
        self.write(self._at("proj/program/__init__.py"), PROGRAM.encode())
        for name in ("proj/b.py", "proj/pkg/__init__.py", "site/pkg/__init__.py"):
            self.write(self._at(name), self._module())
        self.write(self._at("proj/pkg/sub.py"), b"from . import WHAT as W\nWHAT = W + '1'\n")
        self.write(self._at("site/pkg/sub.py"), b"WHAT = 'site'\n")
        self.write(self._at("proj/program/data.json"), b"00000000")

    def _at(self, name):
        return os.path.join(self.root, name)

    def _what(self):
        self.number += 1
        return b"%08d" % self.number

    def _module(self):
        return b'WHAT = "' + self._what() + b'"\n'

    def write(self, path, content):
        """Write a file, in place if it is there."""
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as f:
            f.write(content)

    def files(self):
        """List the files of the tree."""
        return sorted(
            os.path.join(directory, name)
            for directory, _, names in os.walk(self.root)
            for name in names
        )

    def grow_old(self):
        """Wait until no file is as young as the next process."""
        young = max(os.lstat(path).st_ctime for path in (*self.files(), self.root))
        until(lambda: time.time() > young + OLD, "files of some age")

    def change(self):
        """Change something at random, or nothing; gives words for it."""
        change = self.random.choice(
            (self._edit, self._edit, self._edit, self._replace, self._rename, self._shadow,
             self._install, self._delete, self._revert, self._revert, self._touch, self._compiled,
             self._unrelated, self._unrelated, self._nothing,
             self._swap, self._link, self._zip)
        )  # fmt: skip
        try:
            return f"{change.__name__} {change()}"
        except OSError as e:
            return f"{change.__name__} {e}"

    def _any(self, ending=""):
        found = [p for p in self.files() if p.endswith(ending) and not p.endswith((".pyc", ".zip"))]
        return self.random.choice(found)

    def _save(self, path):
        with open(path, "rb") as f:
            self.saved.append((path, f.read(), os.stat(path)))
        del self.saved[:-20]

    def _edited(self, content):
        start = content.find(b'WHAT = "')
        if start < 0:
            return self._what() if b"\n" not in content else content
        start += len(b'WHAT = "')
        return content[:start] + self._what() + content[start + 8 :]  # of the same size

    def _edit(self):
        path = self._any()
        self._save(path)
        status = os.stat(path)
        with open(path, "r+b") as f:
            content = self._edited(f.read())
            f.seek(0)
            f.write(content)
        if self.random.random() < 0.3:
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        return path

    def _replace(self):
        path = self._any()
        self._save(path)
        with open(path, "rb") as f:
            content = self._edited(f.read())
        self.write(f"{path}.new", content)
        if self.random.random() < 0.5:
            shutil.copystat(path, f"{path}.new")
        os.replace(f"{path}.new", path)
        return path

    def _rename(self):
        path = self._any(".py")
        self._save(path)
        name = self.random.choice(NAMES)
        new = os.path.join(os.path.dirname(path), f"{name}.py")
        if not path.endswith(PROGRAMS) and name != "program":
            os.rename(path, new)
        return f"{path} -> {new}"

    def _shadow(self):
        directory = self.random.choice(self.path[:3])
        name = self.random.choice(("b", "plug", "pkg", "json", "space"))
        if name == "json":
            return "nothing"
        kind = self.random.choice(("file", "package", "directory", "part"))
        at = os.path.join(directory, name)
        if kind == "file":
            self.write(f"{at}.py", self._module())
        elif kind == "package":
            self.write(f"{at}/__init__.py", self._module())
            self.write(f"{at}/sub.py", self._module())
        elif kind == "directory":
            os.makedirs(at, exist_ok=True)
        else:
            self.write(f"{at}/part.py", self._module())
        return f"{at} {kind}"

    def _install(self):
        what = self._what().decode()
        at = self.random.choice((self._at("site"), self._at("early")))
        old = [n for n in os.listdir(at) if n.endswith(".dist-info")] if os.path.isdir(at) else []
        for name in old:
            shutil.rmtree(os.path.join(at, name))
        self.write(
            f"{at}/fake-{what}.dist-info/METADATA", f"Name: fake\nVersion: {what}\n".encode()
        )
        self.write(f"{at}/plug.py", self._module())
        return at

    def _delete(self):
        path = self._any()
        if path.endswith(PROGRAMS):
            return "nothing"
        self._save(path)
        os.remove(path)
        if self.random.random() < 0.3 and os.path.dirname(path) not in (
            *(*self.path, self.root, self._at("proj/program")),
        ):
            shutil.rmtree(os.path.dirname(path))
        return path

    def _revert(self):
        if not self.saved:
            return "nothing"
        path, content, status = self.random.choice(self.saved)
        self.write(path, content)
        if self.random.random() < 0.5:
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        return path

    def _touch(self):
        path = self._any()
        os.utime(path)
        return path

    def _compiled(self):
        if not (found := [p for p in self.files() if p.endswith(".pyc")]):
            return "nothing"
        path = self.random.choice(found)
        if self.random.random() < 0.5:
            os.remove(path)
        else:
            shutil.rmtree(os.path.dirname(path))
        return path

    def _unrelated(self):
        directory = self.random.choice(self.path[:3])
        name = self.random.choice(("log.txt", "b.py.swp", "notes/x.txt", "other.py", "program.log"))
        content = self._module() if name.endswith(".py") else self._what()
        self.write(os.path.join(directory, name), content)
        return name

    def _zip(self):
        at = self._at("lib.zip")
        with zipfile.ZipFile(f"{at}.new", "w") as archive:
            archive.writestr("zipped/__init__.py", self._module())
            archive.writestr("zipped/inner.py", self._module())
        if self.random.random() < 0.5:
            os.replace(f"{at}.new", at)
            return at
        with open(f"{at}.new", "rb") as f:
            self.write(at, f.read())
        os.remove(f"{at}.new")
        return at

    def _nothing(self):
        return ""

    def _swap(self):
        one, other = self._at("proj/pkg"), self._at("site/pkg")
        os.rename(one, self._at("swap"))
        os.rename(other, one)
        os.rename(self._at("swap"), other)
        return "pkg"

    def _link(self):
        path = self._any(".py")
        if path.endswith(PROGRAMS) or os.path.islink(path):
            return "nothing"
        target = self._at(f"target{self.random.randrange(2)}.py")
        self.write(target, self._module())
        os.remove(path)
        os.symlink(target, path)
        return path
