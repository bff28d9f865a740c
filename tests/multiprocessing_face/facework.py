"""What ranks do in these tests. Light to import: a fresh interpreter imports it for each rank."""

import os
import pathlib
import signal
import sys
import time


def nothing(i, *args):
    pass


def waits_for(path):
    """Wait for a file."""
    deadline = time.monotonic() + 30
    while not os.path.exists(path):
        assert time.monotonic() < deadline
        time.sleep(0.002)


def wait_for_end_of(path):
    """Wait until the process whose pid is noted there is gone."""
    waits_for(path)
    pid = int(pathlib.Path(path).read_text())
    deadline = time.monotonic() + 30
    while True:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        assert time.monotonic() < deadline
        time.sleep(0.002)


def note(folder, name, text="."):
    """Leave a note that is there as a whole or not at all."""
    path = pathlib.Path(folder, name)
    path.with_suffix(".part").write_text(text)
    path.with_suffix(".part").rename(path)


def tell(i, folder, *args):
    note(folder, str(i), repr(args))


def pause(i, *args):
    while True:  # a signal that comes right before `signal.pause()` would wake nobody
        time.sleep(0.02)


def raise_in(i, who, text="no such batch"):
    if i == who:
        raise ValueError(f"{text} {i}")
    pause(i)


def exit_in(i, who, code):
    if i == who:
        sys.exit(code)
    pause(i)


def exit_hard_in(i, who, code):
    if i == who:
        os._exit(code)


def signal_in(i, who, number):
    if i == who:
        os.kill(os.getpid(), number)
    pause(i)


def interrupted_in(i, who):
    if i == who:
        raise KeyboardInterrupt
    pause(i)


def wait_for_gate(i, folder):
    """Rank 0 ends at once; the others at their gate."""
    if i:
        waits_for(os.path.join(folder, f"gate{i}"))


def fail_or_wait_for_gate(i, folder):
    """Rank 1 fails; rank 0 goes on to its gate and ends well."""
    if i == 1:
        raise ValueError("no such batch")
    waits_for(os.path.join(folder, "gate0"))
    note(folder, "saved")


def fail_or_save(i, folder):
    """Rank 1 fails; rank 0 sees that it is gone, and ends well."""
    if i == 1:
        note(folder, "pid", str(os.getpid()))
        raise ValueError("no such batch")
    wait_for_end_of(os.path.join(folder, "pid"))
    note(folder, "saved")


def fail_or_obey(i, folder):
    """Rank 1 fails when rank 0 is ready; rank 0 notes the signal that it gets."""
    if i == 1:
        waits_for(os.path.join(folder, "ready"))
        raise ValueError("no such batch")

    def obey(number, _):
        note(folder, "signal", signal.Signals(number).name)
        sys.exit(0)

    signal.signal(signal.SIGTERM, obey)
    note(folder, "ready")
    pause(i)


def fail_or_resist(i, folder):
    """Rank 1 fails when rank 0 is ready; rank 0 does not go at SIGTERM."""
    if i == 1:
        waits_for(os.path.join(folder, "ready"))
        raise ValueError("no such batch")
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    note(folder, "ready")
    pause(i)


def return_what_cannot_be_pickled(i):
    return lambda: i


def identity(i, folder):
    import multiprocessing

    me, parent = multiprocessing.current_process(), multiprocessing.parent_process()
    told = (me.name, me.daemon, me._identity, parent.name, parent.pid, parent.is_alive())
    note(folder, str(i), repr(told))


def environment(i, folder):
    note(folder, str(i), repr(dict(os.environ)))


def streams(i):
    print("rank", i, "reads", repr(sys.stdin.read()))
    print("rank", i, "complains", file=sys.stderr)


def child_of_multiprocessing(i, folder):
    import multiprocessing

    child = multiprocessing.get_context("spawn").Process(target=nothing, args=(0,))
    child.start()
    child.join()
    note(folder, str(i), str(child.exitcode))


def nested(i, folder):
    import procession.multiprocessing as mp

    mp.spawn(tell, args=(folder, "nested"), nprocs=2)


def with_grandchildren(i, folder):
    """Each rank has a child of its own; rank 1 fails when all are there."""
    import subprocess

    child = subprocess.Popen(["sleep", "300"], start_new_session=True)
    note(folder, f"child{i}", str(child.pid))
    if i == 1:
        waits_for(os.path.join(folder, "child0"))
        raise ValueError("no such batch")
    pause(i)


def nothing_but_exit(i, code):
    sys.exit(code)


def fail_and_linger(i, folder):
    """Rank 1 fails, and goes when rank 0 was ended."""
    if i == 1:
        import atexit

        atexit.register(waits_for, os.path.join(folder, "ended"))
        raise ValueError("no such batch")
    try:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit())
        pause(i)
    finally:
        note(folder, "ended")


class Unusual(BaseException):
    pass


def raise_base(i):
    if i == 0:
        raise Unusual("so it goes")
    pause(i)


def fail_in_order(i, folder):
    """Rank 1 first, and rank 0 when that is gone; the group is not ended in between."""
    if i == 1:
        note(folder, "pid", str(os.getpid()))
        raise ValueError("first")
    wait_for_end_of(os.path.join(folder, "pid"))
    raise ValueError("second")


def exchange(i, here, there, queue, connection):
    assert here.wait(20)
    there.set()
    queue.put(connection.recv() + 1)
