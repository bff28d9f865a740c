"""Draws what a terminal showed, as pictures: pictures/*.svg.

    python docs/draw_terminals.py    # run the commands (needs torch), and keep what they showed
    python docs/generate.py          # draw what was captured

A picture is drawn by rich from what was captured, `pictures/<name>.txt`, and ends with a comment
that has a checksum of that and of the program. The check compares the checksum: it needs no torch,
and does not depend on the version of rich. That a report still has the words of the picture is
looked at by tests/examples/test_pictures.py.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PICTURES = Path(__file__).with_name("pictures")
PROGRAM = PICTURES / "crash.py"
COMMANDS = {
    "crash_procession": "procession run -n 4 crash.py",
    "crash_torchrun": "torchrun --nproc-per-node 4 crash.py",
}
WIDTH = 104  # columns
RED = re.compile(r"^.* failed: rank .*$|^.*\b(?:FAILED|Root Cause).*$", re.MULTILINE)


def capture(name: str) -> None:
    """Run a command as a user would, and keep what the terminal showed."""
    words = COMMANDS[name].split()
    with tempfile.TemporaryDirectory() as place:
        shutil.copy(PROGRAM, place)
        env = {**os.environ, "COLUMNS": str(WIDTH)}
        program = Path(sys.executable).parent / words[0]
        done = subprocess.run(
            [program, *words[1:]], cwd=place, env=env, text=True, check=False, timeout=300,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        shown = done.stdout.replace(f"{place}/", "").replace(f"{Path(sys.prefix).parent}/", "")
    text = f"$ {COMMANDS[name]}\n{shown}$ echo $?\n{done.returncode}\n"
    (PICTURES / f"{name}.txt").write_text(text, encoding="utf-8")


def checksum(name: str) -> str:
    """Give that of what a picture was drawn from."""
    drawn_from = (PROGRAM.read_bytes(), (PICTURES / f"{name}.txt").read_bytes())
    return hashlib.sha256(b"\0".join(drawn_from)).hexdigest()[:16]


def draw(name: str) -> str:
    """Draw the picture of what was captured."""
    from io import StringIO

    from rich.console import Console
    from rich.text import Text

    console = Console(record=True, width=WIDTH, file=StringIO(), force_terminal=True)
    text = Text((PICTURES / f"{name}.txt").read_text(encoding="utf-8").rstrip("\n"))
    text.highlight_regex(r"(?m)^\$ .*$", "bold green")
    text.highlight_regex(RED, "bold red")
    console.print(text, soft_wrap=False)
    svg = console.export_svg(title=COMMANDS[name], font_aspect_ratio=0.61)
    # The fonts are those of who looks: no request to another server.
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    svg = svg.replace("Fira Code", "ui-monospace, Menlo, Consolas, DejaVu Sans Mono")
    lines = "\n".join(line.rstrip() for line in svg.rstrip().splitlines())
    mark = f"<!-- drawn by docs/draw_terminals.py from {checksum(name)} -->"
    return f"{lines}\n{mark}\n"


def files() -> dict[Path, str]:
    """Give the pictures that were drawn from something else."""
    pictures = {name: PICTURES / f"{name}.svg" for name in COMMANDS}
    old = [n for n, p in pictures.items() if checksum(n) not in p.read_text(encoding="utf-8")]
    return {pictures[name]: draw(name) for name in old}


if __name__ == "__main__":
    for each in COMMANDS:
        capture(each)
