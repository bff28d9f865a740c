"""Programs that are read: files in a directory, and the path on which they would be run."""

import sys

from seams.preload import read
from support import write

REST = [p for p in sys.path[1:] if "packages" in p or "lib/python" in p]


class Programs:
    def __init__(self, directory):
        self.directory = directory

    def __call__(self, **files):
        """Write files, by their paths without `.py`."""
        for name, text in files.items():
            write(self.directory / f"{name}.py", text)

    def script(self, text, **files):
        self(main=text, **files)
        return read.plan_script(str(self.directory / "main.py"), self.path)

    def module(self, name, **files):
        self(**files)
        return read.plan_module(name, self.path)

    @property
    def path(self):
        return [str(self.directory), *REST]
