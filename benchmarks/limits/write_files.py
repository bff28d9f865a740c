"""By hand: n programs write straight to a file each. write_files.py N DIRECTORY COMMAND"""

import os
import sys

n, directory, command = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
for rank in range(n):
    to_file = (os.POSIX_SPAWN_OPEN, 1, f"{directory}/{rank}.log", flags, 0o600)
    os.posix_spawn(command[0], command, os.environ, file_actions=[to_file])
statuses = [os.wait()[1] for _ in range(n)]
sys.exit(any(statuses))
