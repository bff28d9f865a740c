"""By hand: import once, fork n times, run the script in each; fork_ranks.py N MODULES SCRIPT ARGS

MODULES: names with commas between them; "" for none.
"""

import gc
import importlib
import os
import runpy
import socket
import sys
import traceback

n, modules, script = int(sys.argv[1]), sys.argv[2], sys.argv[3]
for name in filter(None, modules.split(",")):
    importlib.import_module(name)
with socket.create_server(("127.0.0.1", 0)) as free:
    port = free.getsockname()[1]
gc.freeze()
for rank in range(n):
    if os.fork() == 0:
        os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(n))
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
        sys.argv[:] = sys.argv[3:]
        sys.path[0] = os.path.dirname(script)
        try:
            runpy.run_path(script, run_name="__main__")
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
statuses = [os.wait()[1] for _ in range(n)]
sys.exit(any(statuses))
