"""What ranks do in the tests of hangs; in a file of its own, which is imported quickly."""

import os
import threading
import time

import procession


def load_batch():
    threading.Event().wait()


def beat_until(stuck, place=None):
    """Beat for ever, but for one rank, which stops."""
    rank = int(os.environ["RANK"])
    for step in range(10**9):
        if rank == stuck and step == 20:
            if place:
                open(place, "w").close()
            load_batch()
        procession.beat(step, 100)
        time.sleep(0.005)


def once(place):
    """Hang in the first attempt."""
    if not os.path.exists(place):
        beat_until(0, place)


def one_beats():
    if os.environ["RANK"] == "0":
        beat_until(-1)
    time.sleep(1000)


def talk(quiet):
    """Write until all is quiet; the last rank is then where no other is."""
    rank = int(os.environ["RANK"])
    for _ in range(10 if quiet else 10**9):
        if rank == 0:
            print("here", flush=True)
        time.sleep(0.01)
    if rank == 2:
        load_batch()
    time.sleep(1000)


def wait_for_all(place, step):
    """Stand for a collective operation."""
    while len(list(place.glob(f"{step}.*"))) < 4:
        time.sleep(0.001 if step < 5 else 1000)


def beat_together(stuck, place):
    """Beat in step with the others, and wait for one that hangs."""
    rank = int(os.environ["RANK"])
    for step in range(6):
        if rank == stuck and step == 5:
            load_batch()
        (place / f"{step}.{rank}").touch()
        wait_for_all(place, step)
        procession.beat(step, 100)
