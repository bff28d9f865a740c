"""The example notebook runs in a real kernel, shows what it says, and leaves nothing."""

import json
import os
import re
from pathlib import Path

import pytest

from support import run_python, until, write

nbformat = pytest.importorskip("nbformat")
pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

NOTEBOOK = Path(__file__).resolve().parents[2] / "examples" / "notebook.ipynb"

# In a process of its own: nbclient and its sockets are gone with it.
EXECUTE = """
    import json, os, sys
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(sys.argv[1], as_version=4)
    NotebookClient(notebook, timeout=40, kernel_name="python3").execute()
    cells = []
    for cell in notebook.cells:
        if cell.cell_type == "code":
            text = ""
            for output in cell.outputs:
                if output.output_type == "stream":
                    text += output.text
                elif output.output_type == "execute_result":
                    text += output.data["text/plain"]
                else:
                    text += "UNEXPECTED " + json.dumps(output)
            cells.append([cell.source, text])
    with open(sys.argv[2], "w") as f:
        json.dump(cells, f)
"""


def execute(tmp_path, monkeypatch, notebook):
    """Run a notebook; gives the output of each code cell."""
    for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    told = tmp_path / "cells.json"
    done = run_python(write(tmp_path / "execute.py", EXECUTE), notebook, told, timeout=55)
    assert done.returncode == 0, done.stderr
    assert os.listdir(os.environ["TMPDIR"]) == []
    return [text for _, text in json.loads(told.read_text())]


def test_notebook(tmp_path, monkeypatch):
    imports, counts, powers, failure, live = execute(tmp_path, monkeypatch, NOTEBOOK)
    assert imports == ""
    numbers, _, total = counts.strip().rpartition(" make ")
    assert total == "17984"
    assert sum(int(n) for n in numbers.strip("[]").split(",")) == 17984
    assert powers == "[1, 10, 100, 1000]"
    lines = failure.splitlines()
    assert lines[0].startswith("work failed: rank 2 of 4 (pid ")
    assert "raised ValueError: could not convert string to float: 'fast'" in lines[0]
    assert "in learning_rate" in failure
    assert "ended by the group:" in failure
    here, ranks, after = live.splitlines()
    assert here == "here: [0, 1, 4]"
    assert ranks == "ranks: [[9, 16, 25], [9, 16, 25, 36]]"
    assert after == "here: 9"


def test_shutdown_of_the_kernel_ends_running_ranks(tmp_path, monkeypatch):
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [
        nbformat.v4.new_code_cell(
            "import time, procession\n"
            "group = procession.start(lambda: time.sleep(3600), nproc=2)\n"
            "sorted(group.pids().values())"
        )
    ]
    path = tmp_path / "running.ipynb"
    nbformat.write(notebook, path)
    (pids,) = execute(tmp_path, monkeypatch, path)
    pids = [int(p) for p in pids.strip("[]").split(",")]
    assert len(pids) == 2
    until(lambda: not any(os.path.exists(f"/proc/{p}") for p in pids), "the end of the ranks")


def test_output_of_ranks_stands_in_the_cell(tmp_path, monkeypatch):
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [
        nbformat.v4.new_code_cell(
            "import os, procession\n"
            "values = procession.run(lambda: print('hello of', os.environ['RANK']), nproc=2)"
        )
    ]
    path = tmp_path / "output.ipynb"
    nbformat.write(notebook, path)
    (text,) = execute(tmp_path, monkeypatch, path)
    text = re.sub(r"\x1b\[\d+m", "", text)  # newer kernels understand colours
    assert sorted(text.splitlines()) == ["[0] hello of 0", "[1] hello of 1"]
