"""What ranks of jobs do; in a file of its own, which each of them imports quickly."""

import os
import signal
import time
from pathlib import Path

import procession


def place():
    names = "RANK LOCAL_RANK GROUP_RANK WORLD_SIZE LOCAL_WORLD_SIZE GROUP_WORLD_SIZE"
    return tuple(int(os.environ[n]) for n in names.split())


def meet():
    return os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"], os.environ["TORCHELASTIC_RUN_ID"]


def there(folder):
    """Say that this rank is there."""
    Path(folder, f"rank{os.environ['RANK']}").write_text(str(os.getpid()))


def hold(folder):
    """Say that we are there, and stay."""
    there(folder)
    while True:
        signal.pause()


def hold_and_complain(folder):
    """Write to both streams when asked to end."""

    def end(number, frame):
        os.write(1, b"I save\n")
        os.write(2, b"RuntimeError: closed by peer\n")
        os._exit(1)

    signal.signal(signal.SIGINT, end)
    hold(folder)


def pids_of(folder, ranks):
    """Give the pids of these ranks, None if one has not said that it is there."""
    found = [Path(folder, f"rank{r}") for r in ranks]
    texts = [f.read_text() if f.exists() else "" for f in found]
    return [int(t) for t in texts] if all(texts) else None


def wait_for(folder, ranks):
    """Wait in a rank until these ones are there."""
    while not pids_of(folder, ranks):
        time.sleep(0.01)


def in_attempt(folder, number):
    """Hold in the first attempt, return in the others."""
    if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        hold(folder)
    return os.environ["GROUP_RANK"], os.getpid()


def in_attempt_or_fail():
    attempt = os.environ["TORCHELASTIC_RESTART_COUNT"]
    if attempt == "0":
        raise SystemExit(3)
    return attempt


def beats_and_hangs(folder, alone):
    """All beat, then rank 2 does that in a place of its own while the others wait for it."""
    there(folder)
    wait_for(folder, range(int(os.environ["WORLD_SIZE"])))
    for step in range(3):
        procession.beat(step=step)
    wait_together() if os.environ["RANK"] != "2" else alone()


def wait_together():
    time.sleep(1000)


def sleep_alone():
    time.sleep(1000)


def talk(folder, count):
    """Rank 0 prints now and then; the others say nothing."""
    for _ in range(count):
        if os.environ["RANK"] == "0":
            print("here", flush=True)
        time.sleep(0.25)
    if count < 20:
        hold(folder)
    return "done"


def big_of_rank_1():
    return b"x" * 100_000 if os.environ["RANK"] == "1" else b""


def note_life(folder):
    """Leave a mark of this life of the rank; gives its number."""
    life = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    Path(folder, f"rank{os.environ['RANK']}.{life}").write_text(str(os.getpid()))
    return life


def lives(folder):
    return sorted(p.name for p in Path(folder).glob("rank*.*") if p.read_text())


def fail_often(folder, *times):
    """Fail in the first lives; times: in how many of them, by rank."""
    if note_life(folder) < times[int(os.environ["RANK"])]:
        raise SystemExit(5)
    return os.environ["TORCHELASTIC_RESTART_COUNT"]


def fail_and_hold(folder, rank=3):
    """Fail, if it is this rank and all are there; the others go on until they are ended."""
    note_life(folder)
    while int(os.environ["RANK"]) != rank or len(lives(folder)) < 4:
        time.sleep(0.01)
    raise SystemExit(5)
