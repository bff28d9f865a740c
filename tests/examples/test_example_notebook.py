"""The example notebook runs in a real kernel, shows what it says, and leaves nothing."""

import json
import os
import re
from pathlib import Path

import pytest

from conftest import marked
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


def script(tmp_path, monkeypatch, source):
    """Write a script that starts kernels; what Jupyter keeps lies in `tmp_path`."""
    for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    return write(tmp_path / "execute.py", source)


def execute(tmp_path, monkeypatch, notebook):
    """Run a notebook; gives the output of each code cell."""
    told = tmp_path / "cells.json"
    done = run_python(script(tmp_path, monkeypatch, EXECUTE), notebook, told, timeout=55)
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


# The kernel is interrupted, and then killed, while ranks run.
INTERRUPT = """
    import asyncio
    from pathlib import Path
    import nbformat
    from nbclient import NotebookClient

    BEGIN = "import os, pathlib, time, procession"
    HOLD = '''
    def hold():
        pathlib.Path("here" + os.environ["RANK"]).touch()
        time.sleep(3600)

    procession.run(hold, nproc=2)
    '''
    notebook = nbformat.v4.new_notebook()
    for source in BEGIN, HOLD, "print('goes on')", HOLD:
        notebook.cells.append(nbformat.v4.new_code_cell(source))

    async def interrupted(client, number, kill):
        cell = asyncio.create_task(client.async_execute_cell(notebook.cells[number], number))
        here = [Path(f"here{rank}") for rank in range(2)]
        while not all(path.exists() for path in here):
            await asyncio.sleep(0.02)
        for path in here:
            path.unlink()
        await (client.km.signal_kernel(9) if kill else client.km.interrupt_kernel())
        try:
            await cell
        except Exception as e:
            print(type(e).__name__, getattr(e, "ename", ""), flush=True)

    async def main():
        client = NotebookClient(notebook, kernel_name="python3")
        async with client.async_setup_kernel():
            await client.async_execute_cell(notebook.cells[0], 0)
            await interrupted(client, 1, kill=False)
            await client.async_execute_cell(notebook.cells[2], 2)
            print(notebook.cells[2].outputs[0].text, end="", flush=True)
            await interrupted(client, 3, kill=True)

    asyncio.run(main())
"""


def test_ranks_end_with_their_cell_or_their_kernel(tmp_path, monkeypatch):
    """The stop button ends them and the notebook goes on; so does the death of the kernel."""
    monkeypatch.setenv("NOTEBOOK_MARK", str(tmp_path))
    done = run_python(script(tmp_path, monkeypatch, INTERRUPT), timeout=55, cwd=tmp_path)
    assert done.stdout.splitlines() == [
        "CellExecutionError KeyboardInterrupt",
        "goes on",
        "DeadKernelError ",
    ], done.stderr
    until(lambda: not marked(f"NOTEBOOK_MARK={tmp_path}"), "the end of all ranks", 30)
