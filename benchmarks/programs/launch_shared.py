"""Launch ranks that work with something large, and stay.

launch_shared.py procession|restart|spawn|limit KIND MEGABYTES RANKS DIRECTORY
"""

import gc
import multiprocessing
import os
import sys
from functools import partial

from shared_load import fail_once, load, stay, stay_alone


def main(way, kind, size, ranks, directory):
    make = partial(load, kind, size, directory)
    if way == "spawn":
        context = multiprocessing.get_context("spawn")
        start = partial(context.Process, target=stay_alone, args=(kind, size, directory))
        processes = [start() for _ in range(ranks)]
        for process in processes:
            process.start()
        processes[0].join()
    elif way == "limit":
        data = make()
        gc.freeze()
        for _ in range(ranks):
            if os.fork() == 0:
                stay(data, directory)
        os.wait()
    else:
        import procession

        if way == "restart":
            again = procession.Restart(1)
            procession.run(fail_once, args=(directory,), nproc=ranks, shared=make, restart=again)
        else:
            procession.run(stay, args=(directory,), nproc=ranks, shared=make)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
