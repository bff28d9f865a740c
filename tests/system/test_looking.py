"""What is seen of how a group goes and ends: last lines, the cause, the deadline."""

import json
import signal
import time

import procession
from support import OBEDIENT, shell, until


def lines(group):
    return [rank["last_line"] for rank in group.look()["ranks"]]


def test_the_last_line_of_each_rank(capfd, tmp_path):
    text = "printf 'one\\n\\033[31mtwo %s\\007' $RANK; exec sleep 1000"
    with procession.start(shell(text), nproc=2, stop=OBEDIENT) as group:
        until(lambda: lines(group) == ["two 0^G", "two 1^G"])
        json.dumps(group.look())
    text = "echo out $RANK; echo err $RANK >&2; exec sleep 1000"
    logs = procession.Logs(dir=str(tmp_path), redirect=procession.Std.ALL)
    with procession.start(shell(text), nproc=2, logs=logs, stop=OBEDIENT) as group:
        until(lambda: [line[-1:] for line in lines(group)] == ["0", "1"])


def test_a_failure_is_seen_while_the_others_end(tmp_path):
    ready = tmp_path / "ready"

    def work():
        import os

        if os.environ["RANK"] == "1":
            while not ready.exists():
                time.sleep(0.01)
            raise ValueError("no more")
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        ready.touch()
        while True:
            time.sleep(1000)

    stop = procession.Stop(grace=1000, linger=0.1)
    group = procession.start(work, nproc=2, stop=stop)
    try:
        said = "rank 1 raised ValueError: no more"  # what it says comes after what it is
        until(lambda: group.look()["cause"] == said)
        look = until(lambda: group.look()["kill_at"] and group.look())
        until(lambda: group.look()["ranks"][1]["ended"])
        first, second = group.look()["ranks"]
    finally:
        group.kill()
    assert look["state"] == "STOPPING"
    assert 900 < look["kill_at"] - time.time() <= 1000
    assert (first["failed"], first["ended"]) == (False, None)
    assert (second["failed"], second["ended"]) == (True, "FAILED")
    assert second["exit"] == "exit code 1"
