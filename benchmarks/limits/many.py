"""By hand: start many /bin/sleep, kill one, then all; prints the seconds of both. many.py N"""

import json
import os
import signal
import sys
import time

n = int(sys.argv[1])
begin = time.perf_counter()
pids = [os.posix_spawn("/bin/sleep", ["sleep", "1000"], os.environ) for _ in range(n)]
started = time.perf_counter()
os.kill(pids[n // 2], signal.SIGKILL)
os.wait()
for pid in pids[: n // 2] + pids[n // 2 + 1 :]:
    os.kill(pid, signal.SIGTERM)
for _ in range(n - 1):
    os.wait()
print(json.dumps([started - begin, time.perf_counter() - started]))
