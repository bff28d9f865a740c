"""By hand: start a program and wait for it. spawn_one.py PROGRAM ARGS"""

import os
import sys

pid = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
