"""Ranks that write much, and in odd ways; a module that ranks import.

What each has written is known from its kind, rank and size, so that it can be compared.
"""

from __future__ import annotations

import os
import signal
import time

KINDS = ("one long line", "NULs", "carriage returns", "short lines", "no end of line", "bytes")


def content(kind: str, rank: int, size: int) -> bytes:
    """Give what a rank writes: about `size` bytes."""
    if kind == "one long line":
        return b"%d" % rank * size + b"\n"
    if kind == "NULs":
        return b"\0" * 1000 + b"\n" + b"\0" * size + b" of %d\n" % rank
    if kind == "carriage returns":
        return _repeated(b"\rstep %04d of %d", rank, size) + b"\n"
    if kind == "short lines":
        return _repeated(b"line %04d of %d\n", rank, size)
    if kind == "no end of line":
        return b"line\n" * (size // 5) + b"the last of %d" % rank
    return bytes(n * 7 % 256 for n in range(256)) * (size // 256) + b"\n"


def _repeated(form: bytes, rank: int, size: int) -> bytes:
    block = b"".join(form % (number, rank) for number in range(10_000))
    return block * (size // len(block)) + block[: size % len(block) // 15 * 15]


def write(kind: str, size: int, child: str) -> None:
    """Write it, and leave a child that holds or floods the output."""
    rank = int(os.environ["RANK"])
    if child and not os.fork():
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        end = time.monotonic() + 60  # for the case that nobody ends it
        while time.monotonic() < end:
            if child == "floods":
                os.write(2, b"flood\n" * 100)
            else:
                time.sleep(1)
        os._exit(0)
    data = memoryview(content(kind, rank, size))
    while data:
        data = data[os.write(1, data) :]


def launch(kind: str, size: str, child: str, logs: str, mode: str) -> None:
    """Be a launcher of such ranks."""
    import procession
    from chaos.programs import lines

    std = {"redirect": procession.Std.OUT, "tee": procession.Std.ALL, "none": procession.Std.NONE}
    procession.run(
        lines.write,
        args=(kind, int(size), child),
        nproc=2,
        logs=procession.Logs(
            logs if mode != "none" else None,
            redirect=std[mode if mode == "redirect" else "none"],
            tee=std[mode if mode == "tee" else "none"],
        ),
        stop=procession.Stop(grace=0.2, linger=0.2),
    )


if __name__ == "__main__":
    import sys

    launch(*sys.argv[1:])
