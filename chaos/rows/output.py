"""Ranks write much and in odd ways; the console is slow, stalled, closed or full."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from chaos.launchers import Launcher
from chaos.programs import lines
from chaos.row import SLOW, Row, Trial

SIZES = (0, 1000, 300_000, 3_000_000)
LARGE = 100_000_000
READERS = {"read": ["cat"], "stalled": ["sleep", "1000"], "closed": ["true"]}
CONSOLES = (*READERS, "full", "a file")
MOST_MEMORY = 250_000  # KiB of the launcher, with what Python and a large report take
NOTE = b"did not take all output in time"
PATIENCE = 3.0  # seconds until a launcher is told to end whose ranks wait for the console
DRAIN = 10.0  # seconds in which a launcher ends whose console takes nothing


def strike(trial: Trial) -> None:
    """Run a launcher whose console behaves in some way, and compare the files."""
    chance, work = trial.chance, trial.place / "work"
    kind, console = chance.choice(lines.KINDS), chance.choice(CONSOLES)
    size = LARGE if chance.random() < 0.03 else chance.choice(SIZES)
    child = chance.choice(("", "", "holds", "floods"))
    mode = chance.choice(("redirect", "tee", "tee", "none"))
    trial.do(
        f"{kind}, {size} bytes, {mode}, console {console}" + f", a child {child}" * bool(child)
    )
    argv = [sys.executable, lines.__file__, kind, str(size), child, str(work / "logs"), mode]
    began = time.monotonic()
    device = "/dev/full" if console == "full" else work / "shown"
    with (
        open(device, "wb") as output,
        subprocess.Popen(
            READERS.get(console, ["true"]), stdin=subprocess.PIPE, stdout=output
        ) as reader,
    ):
        if console == "closed":
            reader.wait()
        launcher = Launcher(argv, work, console=reader.stdin if console in READERS else output)
        assert reader.stdin is not None
        reader.stdin.close()
        # Ranks without files wait for their console, as they would without a launcher.
        waits = console == "stalled" and mode == "none"
        code, memory = _ended(launcher.process, 40 * SLOW, told=waits)
        if console == "stalled":
            reader.kill()
    shown = b"" if console == "full" else (work / "shown").read_bytes()
    took = time.monotonic() - began
    trial.must(code is not None, "it does not end")
    trial.must(memory < MOST_MEMORY, f"the launcher's memory: {memory} KiB")
    if console in ("stalled", "closed", "full"):
        trial.took("until the end, nobody reads", took, DRAIN + 5 + size / 5e6)
    elif code is not None:
        trial.must(code == 0, f"exit code {code}: {shown[-600:]!r}")
    if mode != "none":
        for rank in range(2):
            found = [*work.glob(f"logs/*/attempt_0/{rank}/stdout.log")]
            wanted = lines.content(kind, rank, size)
            same = len(found) == 1 and found[0].read_bytes() == wanted
            trial.must(same, f"rank {rank}: {_compared(found, wanted)}")
    if console in ("read", "a file") and mode != "redirect" and kind == "short lines":
        for rank in range(2):
            start = b"[%d] line " % rank
            of_rank = [line[4:] for line in shown.splitlines(keepends=True) if line[:9] == start]
            wanted = lines.content(kind, rank, size)
            given = b"".join(of_rank)
            # After the end, there is a short time for a console that is slow; then a note.
            cut = NOTE in shown and wanted.startswith(given)
            trial.must(given == wanted or cut, f"rank {rank}: {len(of_rank)} lines are shown")
            trial.count("cut off, with a note" if given != wanted else "all shown")
    trial.count(f"console {console}")


def _compared(found: list[Path], wanted: bytes) -> str:
    if len(found) != 1:
        return f"{len(found)} files"
    data = found[0].read_bytes()
    same = len(os.path.commonprefix([data, wanted]))
    return f"{len(data)} bytes, not {len(wanted)}; the same up to {same}"


def _ended(
    process: subprocess.Popen[bytes], seconds: float, *, told: bool
) -> tuple[int | None, int]:
    """Wait for its end; gives its exit code, None if it did not come, and its memory in KiB.

    told: after a while it gets SIGTERM.
    """
    began, most = time.monotonic(), 0
    while time.monotonic() < began + seconds:
        if told and time.monotonic() > began + PATIENCE:
            told = False
            process.terminate()
        if process.poll() is not None:
            return process.returncode, most
        most = max(most, _peak_memory(process.pid))
        time.sleep(0.005)
    process.kill()
    process.wait()
    return None, most


def _peak_memory(pid: int) -> int:
    """Give the most memory that a process has had, in KiB; 0 if it is gone."""
    try:
        with open(f"/proc/{pid}/status", encoding="ascii") as f:
            return next((int(t.split()[1]) for t in f if t.startswith("VmHWM:")), 0)
    except OSError:
        return 0


ROW = Row(
    fault="ranks write lines of up to 100 MB, NULs, a storm of `\\r`, short lines at full speed, "
    "bytes that are no text; the console is stalled, closed, full; a grandchild holds or floods "
    "the output",
    holds="files hold every byte; a console that reads gets every line, or, 2 s after the end, a "
    "note; the end is not held up; memory is bounded",
    full=200,
    strike=strike,
    limit=400,
)
