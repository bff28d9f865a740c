"""The tests' end of `importer.py`."""

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


class Importer:
    """Imports programs in processes of their own. python: their interpreter."""

    def __init__(self, python=sys.executable, **env):
        self.env = {**os.environ, **env}
        self._process = subprocess.Popen(
            [python, HERE / "importer.py"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=self.env,
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.stdin.close()
        self._process.wait(20)
        self._process.stdout.close()

    def ask(self, path, watched, module="program"):
        """Import a module; gives what its `value()` gives, and what decided it if watched."""
        wish = {"path": [*map(str, path)], "watched": watched, "module": module}
        self._process.stdin.write(json.dumps(wish).encode() + b"\n")
        self._process.stdin.flush()
        out = self._process.stdout
        return pickle.loads(out.read(int(out.readline())))

    def reason(self, imported, **variables):
        """Give why imports do not hold where these variables differ, "" if they do."""
        return imported.changed_variable({**self.env, **variables}) or imported.change()
