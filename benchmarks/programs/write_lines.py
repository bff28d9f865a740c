"""A rank that writes lines of 80 bytes: write_lines.py MEGABYTES DIRECTORY [CPU]

CPU: the only one that it may use. It leaves the seconds that this took in the directory. Lines
leave in blocks, as they do from a program that does not care.
"""

import os
import sys
import time
from pathlib import Path

if len(sys.argv) > 3:
    os.sched_setaffinity(0, {int(sys.argv[3])})
line = b"step 000000 loss 0.000000 " + b"x" * 53 + b"\n"
lines = int(float(sys.argv[1]) * 1e6) // len(line)
with open(1, "wb", buffering=8192, closefd=False) as out:
    begin = time.perf_counter()
    for _ in range(lines):
        out.write(line)
    out.flush()
    seconds = time.perf_counter() - begin
Path(sys.argv[2], f"rank_{os.getpid()}").write_text(str(seconds))
