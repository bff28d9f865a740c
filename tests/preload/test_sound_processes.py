"""Processes of a rank's own: multiprocessing's, pools, shared memory, plain children."""

from sides import same, sides

SOURCE = """
import concurrent.futures
import json
import multiprocessing
import os
import random
import subprocess
import sys
import threading
from multiprocessing import resource_tracker, shared_memory


class Mine(int):
    pass


def work(n):
    main = sys.modules["__main__"]
    return [n * n, type(n).__name__, type(n).__module__, __name__, sys.argv[1:],
            multiprocessing.current_process().name, multiprocessing.parent_process() is not None,
            multiprocessing.process.ORIGINAL_DIR == os.getcwd(), threading.active_count(),
            sys.modules["__mp_main__"].__dict__ is globals(), main.__name__]


def tell(queue, n):
    queue.put(work(n))


seen = {}

if __name__ == "__main__":
    seen["unset"] = multiprocessing.get_start_method(allow_none=True)
    multiprocessing.set_start_method("spawn")
    for method in ("fork", "spawn", "forkserver"):
        context = multiprocessing.get_context(method)
        queue = context.Queue()
        process = context.Process(target=tell, args=(queue, Mine(3)), name=f"p-{method}")
        process.start()
        seen[method] = queue.get()
        process.join()
        seen[f"{method} code"] = process.exitcode
        with context.Pool(1) as pool:
            seen[f"{method} pool"] = [r[:5] for r in pool.map(work, [Mine(1), Mine(2)])]
    with concurrent.futures.ProcessPoolExecutor(1, context) as executor:
        seen["executor"] = executor.submit(work, Mine(4)).result()[:5]
    with multiprocessing.Manager() as manager:
        seen["manager"] = list(manager.list([1, 2]))
    block = shared_memory.SharedMemory(create=True, size=10)
    block.close()
    block.unlink()
    seen["set"] = multiprocessing.get_start_method()
    pid = resource_tracker._resource_tracker._pid
    seen["tracker"] = [pid is not None, pid != os.getppid()]
    seen["again"] = json.loads(subprocess.run(
        [sys.executable, "-c", "import json, sys; print(json.dumps([sys.argv, str(sys.flags)]))"],
        stdout=subprocess.PIPE, check=True).stdout)
    seen["shell"] = subprocess.getoutput("echo $WORLD_SIZE; umask; pwd")
    if not (pid := os.fork()):
        os._exit(7)
    seen["forked"] = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
"""


def test_processes(tmp_path):
    seen = same(sides(tmp_path, SOURCE, args=["x"], nproc=1)).seen
    for method in ("fork", "spawn", "forkserver"):
        assert seen[method][0] == 9
        assert seen[f"{method} code"] == 0
    assert seen["unset"] is None
    assert seen["set"] == "spawn"
