"""By hand: posix_spawn n times, waitpid n times; prints the seconds.

spawn_wait.py N DIRECTORY PROGRAM ARGS; each writes straight to a file in DIRECTORY, unless "".
"""

import os
import sys
import time

n, directory, command = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
opened = (os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
files = [[(os.POSIX_SPAWN_OPEN, 1, f"{directory}/{k}.log", *opened)] for k in range(n)]
begin = time.perf_counter()
pids = [
    os.posix_spawnp(command[0], command, os.environ, file_actions=files[k] if directory else ())
    for k in range(n)
]
statuses = [os.waitpid(pid, 0)[1] for pid in pids]
seconds = time.perf_counter() - begin
assert not any(statuses), statuses
print(seconds)
