"""By hand: posix_spawn n times, waitpid n times; prints the seconds.

spawn_wait.py N PROGRAM ARGS
"""

import os
import sys
import time

n, command = int(sys.argv[1]), sys.argv[2:]
begin = time.perf_counter()
pids = [os.posix_spawnp(command[0], command, os.environ) for _ in range(n)]
statuses = [os.waitpid(pid, 0)[1] for pid in pids]
seconds = time.perf_counter() - begin
assert not any(statuses), statuses
print(seconds)
