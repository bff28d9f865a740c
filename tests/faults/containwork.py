"""A launcher whose ranks leave daemons that fork without end. Words: contain, directory, ranks."""

import os
import sys
import time
from pathlib import Path

import procession

sys.path.insert(0, str(Path(__file__).parent.parent.parent))
from chaos.programs.forking import daemon


def rank(place):
    for _ in range(3):
        if not os.fork():
            os.setsid()
            if not os.fork():
                daemon()
            os._exit(0)
        os.wait()
    with open(f"{place}/{os.environ['RANK']}", "w") as f:
        f.write(str(os.getpid()))
    time.sleep(100)


if __name__ == "__main__":
    contain, place, nproc = sys.argv[1:]
    kept = procession.Logs(f"{place}/logs")  # what a killed launcher and forkserver do not remove
    procession.run(rank, args=(place,), nproc=int(nproc), contain=contain, logs=kept)
