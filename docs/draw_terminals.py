"""Draws what a terminal shows, as pictures: pictures/*.svg.

`python docs/draw_terminals.py [NAME ...]` runs each command on a terminal of its own (it needs
torch), keeps what that showed (pictures/*.txt), and has rich draw it. That the words are still
those is looked at by tests/examples/test_pictures.py.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from io import StringIO
from pathlib import Path
from typing import NamedTuple

import pexpect
import pyte
from rich.console import Console
from rich.text import Text

PICTURES = Path(__file__).with_name("pictures")
PROGRAMS = "crash.py", "ends.py", "broken.sh"
RED = re.compile(r"(?m)^.* failed: rank .*$|^.*\b(?:FAILED|Root Cause).*$|^.* was stopped .*$")
CTRL_C = b"\x03"
PATIENCE = 120.0  # seconds
RUN = "procession run -n 4"
JOB = f"{RUN[:-1]}2 --nnodes 2 --rdzv-backend c10d --rdzv-endpoint localhost:29417 --rdzv-id demo"


class Scene(NamedTuple):
    """A command, and what is done to it: a key is typed, or a signal sent, when a text is shown.

    beside: a command that runs in the background, and is not shown.
    """

    command: str
    steps: tuple[tuple[str, bytes | int], ...] = ()
    beside: str = ""
    widths: tuple[int, ...] = (80, 200)


SCENES = {
    "crash_procession": Scene(f"{RUN} crash.py", widths=(116,)),
    "crash_torchrun": Scene("torchrun --nproc-per-node 4 crash.py", widths=(116,)),
    "raise": Scene(f"{RUN} ends.py raise"),
    "sigkill": Scene(f"{RUN} ends.py sigkill"),
    "sigsegv": Scene(f"{RUN} ends.py sigsegv"),
    "memory": Scene(f"{RUN} --memory-limit 200M ends.py memory"),
    "hang": Scene(f"{RUN} --hang-timeout 8 ends.py hang"),
    "ctrl_c": Scene(f"{RUN} ends.py hang", (("waiting", CTRL_C),)),
    "ctrl_c_twice": Scene(
        f"{RUN} ends.py stays", (("waiting", CTRL_C), ("once more kills", CTRL_C))
    ),
    "sigterm": Scene(f"{RUN} ends.py hang", (("waiting", signal.SIGTERM),)),
    "start": Scene(f"{RUN} ./broken.sh"),
    "debug": Scene(
        f"{RUN} ends.py debug",
        tuple(
            (r"\(Pdb\) ", line) for line in (b"ranks\n", b"p rank\n", b"all p shape\n", b"all c\n")
        ),
    ),
    "two": Scene(f"{RUN} ends.py two"),
    "many": Scene(f"{RUN[:-1]}64 ends.py raise"),
    "machines": Scene(f"{JOB} ends.py raise", beside=f"{JOB} ends.py raise"),
}


def capture(scene: Scene, width: int) -> str:
    """Run a command as a user would; gives what the terminal shows in the end."""
    with tempfile.TemporaryDirectory() as place:
        for program in PROGRAMS:
            shutil.copy(PICTURES / program, place)
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        env = {**os.environ, "PATH": path, "TERM": "xterm", "NO_COLOR": "1", "PYTHONUTF8": "1",
               "OMP_NUM_THREADS": "1"}  # of which is told only once  # fmt: skip
        beside = None
        if scene.beside:
            quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            beside = subprocess.Popen(scene.beside.split(), cwd=place, env=env, **quiet)
        code, lines = on_terminal(scene, width, place, env)
        if beside is not None:
            beside.wait(PATIENCE)
        shown = "\n".join(lines).replace(f"{place}/", "")
        shown = shown.replace(f"{Path(sys.prefix).parent}/", "")
    return f"$ {scene.command}\n{shown}\n$ echo $?\n{code}\n"


def on_terminal(scene: Scene, width: int, place: str, env: dict[str, str]) -> tuple[int, list[str]]:
    """Run a command on a terminal; gives its exit code, and all lines that were shown."""
    words = scene.command.split()
    size = {"dimensions": (24, width), "timeout": PATIENCE}
    child = pexpect.spawn(words[0], words[1:], cwd=place, env=env, **size)
    shown = b""
    for when, what in scene.steps:
        child.expect(when)
        shown += child.before + child.after
        time.sleep(1)  # the ranks are where they stay
        os.kill(child.pid, what) if isinstance(what, int) else child.send(what)
    child.expect(pexpect.EOF)
    child.close()
    screen = pyte.HistoryScreen(width, 24, history=10_000)
    pyte.ByteStream(screen).feed(shown + child.before)
    above = ["".join(line[x].data for x in range(width)) for line in screen.history.top]
    lines = [line.rstrip() for line in [*above, *screen.display]]
    return child.exitstatus, "\n".join(lines).rstrip().split("\n")


def draw(command: str, shown: str, width: int) -> str:
    """Draw a picture of what a command showed."""
    console = Console(record=True, width=width, file=StringIO(), force_terminal=True)
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
    for name in sys.argv[1:] or SCENES:
        scene = SCENES[name]
        for width in scene.widths:
            shown = capture(scene, width)
            path = PICTURES / (f"{name}_{width}" if scene.widths[1:] else name)
            path.with_suffix(".txt").write_text(shown, encoding="utf-8")
            path.with_suffix(".svg").write_text(draw(scene.command, shown, width), encoding="utf-8")
