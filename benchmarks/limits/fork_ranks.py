"""By hand: import once, fork n times, run the script in each; if one fails, end all, and once more.

fork_ranks.py N MODULES SCRIPT ARGS; MODULES: names with commas between them; "" for none.
"""

import gc
import importlib
import os
import runpy
import signal
import socket
import sys
import traceback

n, modules, sys.argv = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
for name in filter(None, modules.split(",")):
    importlib.import_module(name)
with socket.create_server(("127.0.0.1", 0)) as free:
    port = free.getsockname()[1]
os.environ.update(WORLD_SIZE=str(n), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
sys.path[0] = os.path.dirname(sys.argv[0])
gc.freeze()
for attempt in range(2):
    pids, failed = set(), False
    for rank in range(n):
        pid = os.fork()
        if pid == 0:
            os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank))
            os.environ.update(TORCHELASTIC_RESTART_COUNT=str(attempt))
            try:
                runpy.run_path(sys.argv[0], run_name="__main__")
                os._exit(0)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
        pids.add(pid)
    while pids:
        pid, status = os.wait()
        pids.discard(pid)
        for other in pids if status and not failed else ():
            os.kill(other, signal.SIGTERM)
        failed = failed or status != 0
    if not failed:
        break
sys.exit(failed)
