"""Functions: from launchers that have loaded much, from scripts, and from notebook-like cells."""

import json

from support import require, run_python, write

require("numpy", "joblib")

# What a rank sees, from a launcher that has loaded more than its function needs.
LAUNCHER = """
import json
import sys
import fractions
import numpy
import joblib
import procession

import helpers


class Mine:
    def __init__(self, n):
        self.n = n


def work(a, mine):
    import multiprocessing, os, pickle, random, threading
    main = sys.modules["__main__"]
    values = numpy.random.rand(), random.random()
    early = "procession.worker.renewal" in sys.modules
    names = {n for n in sys.modules if n.partition(".")[0] in ("numpy", "joblib", "helpers")}
    return early, [str(v) for v in values], {
        "sum": int(a.sum()) + mine.n + helpers.three(),
        "numpy": "numpy" in names,
        "joblib": "joblib" in names,
        "helpers": "helpers" in names,
        "main": [main.__name__, getattr(main, "__file__", None), sorted(vars(main))[:3],
                 type(pickle.loads(pickle.dumps(mine))).__module__],
        "argv": sys.argv,
        "path": sys.path,
        "directory": [os.getcwd(), multiprocessing.process.ORIGINAL_DIR],
        "threads": threading.active_count(),
        "native": threading.main_thread().native_id == os.getpid(),
        "method": multiprocessing.get_start_method(allow_none=True),
        "product": float((numpy.ones((300, 300)) @ numpy.ones((300, 300)))[0, 0]),
    }


if __name__ == "__main__":
    told = []
    for preload in (None, "auto", "auto"):
        told.append(procession.run(work, args=(numpy.arange(4), Mine(5)), nproc=2, preload=preload))
    print(json.dumps(told))
"""


def told_by(*words, **options):
    done = run_python(*words, timeout=60, **options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def check(told, *, early):
    assert [rank[0] for ranks in told for rank in ranks] == [False] * 2 + [early] * 4
    drawn = [tuple(rank[1]) for ranks in told for rank in ranks]
    assert len({d[0] for d in drawn}) == len({d[1] for d in drawn}) == 6
    seen = [rank[2] for ranks in told for rank in ranks]
    assert all(s == seen[0] for s in seen)
    return seen[0]


def test_a_launcher_that_has_loaded_more(tmp_path):
    path = write(tmp_path / "main.py", LAUNCHER)
    helpers = "import fractions\nimport numpy as np\ndef three():\n    return int(np.array(3))\n"
    write(tmp_path / "helpers.py", helpers)
    (tmp_path / "cwd").mkdir()
    seen = check(told_by(path, "--x", cwd=tmp_path / "cwd"), early=True)
    assert (seen["sum"], seen["numpy"], seen["helpers"]) == (14, True, True)
    assert not seen["joblib"]
    assert seen["product"] == 300
    assert seen["directory"] == [str(tmp_path / "cwd")] * 2


CELLS = """
import __main__, json, types
cells = [
    "import numpy as np\\nimport procession, json",
    "scale = 3\\ndef work(x):\\n    return float(np.sum(x)) * scale",
    "early = lambda x: ('procession.worker.renewal' in __import__('sys').modules, work(x))",
    "options = dict(args=(np.ones(2),), nproc=2)",
    "told = [procession.run(early, preload=p, **options) for p in (None, 'auto')]",
    "scale = 4\\ntold.append(procession.run(early, **options))",
]
for i, cell in enumerate(cells):
    exec(compile(cell, f"<cell {i}>", "exec"), __main__.__dict__)
print(json.dumps(told))
"""


def test_cells():
    told = told_by("-c", CELLS)
    assert told == [[[False, 6.0]] * 2, [[True, 6.0]] * 2, [[True, 8.0]] * 2]
