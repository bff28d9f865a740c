"""A launcher whose ranks leave daemons that fork without end. Words: contain, directory, ranks."""

import os
import signal
import sys
import time

import procession


def daemon():
    """Fork for ever, and hear no signal that can be ignored."""
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    while True:
        if not os.fork():
            time.sleep(0.3)
            os._exit(0)
        time.sleep(0.05)
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


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
