"""Draws what a terminal showed, as pictures: pictures/*.svg.

`python docs/draw_terminals.py` runs the commands (it needs torch), keeps what they showed
(pictures/*.txt), and has rich draw it. That a report still has the words of the picture is looked
at by tests/examples/test_pictures.py.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.text import Text

PICTURES = Path(__file__).with_name("pictures")
PROGRAM = PICTURES / "crash.py"
COMMANDS = {
    "crash_procession": "procession run -n 4 crash.py",
    "crash_torchrun": "torchrun --nproc-per-node 4 crash.py",
}
WIDTH = 104  # columns
RED = re.compile(r"^.* failed: rank .*$|^.*\b(?:FAILED|Root Cause).*$", re.MULTILINE)


def capture(command: str) -> str:
    """Run a command as a user would; gives what the terminal showed."""
    words = command.split()
    with tempfile.TemporaryDirectory() as place:
        shutil.copy(PROGRAM, place)
        env = {**os.environ, "COLUMNS": str(WIDTH)}
        program = Path(sys.executable).parent / words[0]
        done = subprocess.run(
            [program, *words[1:]], cwd=place, env=env, text=True, check=False, timeout=300,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        shown = done.stdout.replace(f"{place}/", "").replace(f"{Path(sys.prefix).parent}/", "")
    return f"$ {command}\n{shown}$ echo $?\n{done.returncode}\n"


def draw(command: str, shown: str) -> str:
    """Draw a picture of what a command showed."""
    console = Console(record=True, width=WIDTH, file=StringIO(), force_terminal=True)
    text = Text(shown.rstrip("\n"))
    text.highlight_regex(r"(?m)^\$ .*$", "bold green")
    text.highlight_regex(RED, "bold red")
    console.print(text, soft_wrap=False)
    svg = console.export_svg(title=command, font_aspect_ratio=0.61)
    # The fonts are those of who looks: no request to another server.
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    svg = svg.replace("Fira Code", "ui-monospace, Menlo, Consolas, DejaVu Sans Mono")
    return "\n".join(line.rstrip() for line in svg.rstrip().splitlines()) + "\n"


if __name__ == "__main__":
    for name, command in COMMANDS.items():
        shown = capture(command)
        (PICTURES / f"{name}.txt").write_text(shown, encoding="utf-8")
        (PICTURES / f"{name}.svg").write_text(draw(command, shown), encoding="utf-8")
