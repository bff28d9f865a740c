"""A rank that writes a line every 50 ms, which says when it was written: stamp_lines.py LINES"""

import os
import sys
import time

time.sleep(0.5)  # until all is idle
for _ in range(int(sys.argv[1])):
    time.sleep(0.05)
    os.write(1, b"at %d\n" % time.monotonic_ns())
