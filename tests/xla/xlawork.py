"""What the ranks of these tests run; and how they say that they did."""

import json
import os
import sys
import time
from pathlib import Path

STAND_IN = str(Path(__file__).parent / "standin")


def calls(path, *kinds):
    """Read what was written down, in order; kinds: only these calls."""
    try:
        lines = Path(path).read_text().splitlines()
    except FileNotFoundError:
        return []
    found = [json.loads(line) for line in lines]
    return [c for c in found if not kinds or c["call"] in kinds]


def say(call, *args):
    """Write down as the stand-in does, also where it is not there."""
    env = dict(os.environ)
    line = json.dumps({"call": call, "args": args, "pid": os.getpid(), "env": env})
    fd = os.open(os.environ["XLA_CALLS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(fd, f"{line}\n".encode())
    os.close(fd)


def tell(index, *args):
    say("fn", index, *args)


def fail_at(index, who, message="no more data"):
    if index == who:
        raise ValueError(message)
    time.sleep(60)


def exit_at(index, who, code):
    tell(index)
    if index == who:
        sys.exit(code)


def fall(index, depth):
    if depth:
        fall(index, depth - 1)
    raise RuntimeError(f"at the bottom of {index}")


def fail_slowly(index, who):
    """One fails, and takes its time to exit."""
    if index == who:
        import atexit

        atexit.register(time.sleep, 1.5)
        raise ValueError("no more data")
    time.sleep(60)
