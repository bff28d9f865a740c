"""The tests' end of `importer.py`."""

import json
import marshal
import os
import subprocess
import sys
from pathlib import Path

from seams.agent import reason_against

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

    def ask(self, path, observed, module="program"):
        """Import a module; gives what its `value()` gives, and the record if it is observed."""
        wish = {"path": [*map(str, path)], "observed": observed, "module": module}
        self._process.stdin.write(json.dumps(wish).encode() + b"\n")
        self._process.stdin.flush()
        out = self._process.stdout
        return marshal.loads(out.read(int(out.readline())))

    def reason(self, record, **variables):
        """Give why a record does not hold where these variables differ, "" if it does."""
        return reason_against(record, {**self.env, **variables})
