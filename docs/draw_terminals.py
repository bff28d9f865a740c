"""Draws what a terminal showed, as pictures: pictures/*.svg.

    python docs/draw_terminals.py --capture    # run the commands (needs torch), then draw
    python docs/draw_terminals.py              # draw what was captured before
    python docs/draw_terminals.py --check      # exit with 1 if a picture is not up to date

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


def draw(name: str) -> None:
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
    (PICTURES / f"{name}.svg").write_text(f"{lines}\n{mark}\n", encoding="utf-8")


def main(arguments: list[str]) -> int:
    """Run the command and give its exit code."""
    code = 0
    for name in COMMANDS:
        if "--capture" in arguments:
            capture(name)
        picture = PICTURES / f"{name}.svg"
        if picture.is_file() and checksum(name) in picture.read_text(encoding="utf-8"):
            continue
        if "--check" in arguments:
            print(f"{picture.name} is not up to date; run {Path(__file__).name}", file=sys.stderr)
            code = 1
        else:
            draw(name)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
