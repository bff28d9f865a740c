"""A console that does not read: it may hold up what is shown on it, and nothing else.

And one that goes away, as `head` does: the group is stopped, unless files keep what it writes.
"""

import os
import select
import signal
import subprocess
import threading

import pytest
from commandline import PROCESSION, only

from support import gone, reader_of, until, write

TALK = """
    import os, pathlib, sys
    own = pathlib.Path(sys.argv[1], os.environ["RANK"])
    for i in range(10_000):
        print("line", i, "." * 100)
    own.write_text(f"{os.getpid()}\\n")
"""
LINES = 10_000


class Stuck:
    """A command whose standard output leads to a pipe that nobody reads yet.

    So does its standard error, unless it is given.
    """

    def __init__(self, *words, stderr=None):
        self._ours, theirs = os.pipe()
        self.process = subprocess.Popen(
            [*PROCESSION, "run", *map(str, words)],
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=stderr or theirs,
        )
        self.pid = self.process.pid
        self.text = b""
        os.close(theirs)

    def hang_up(self):
        if self._ours >= 0:
            os.close(self._ours)
            self._ours = -1

    def drain(self):
        """Read everything to the end; gives the exit code."""
        limit = threading.Timer(30, self.process.kill)
        limit.start()
        while block := os.read(self._ours, 1 << 16):
            self.text += block
        limit.cancel()
        limit.join()
        return self.process.wait(20)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.hang_up()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


@pytest.fixture
def place(tmp_path):
    made = tmp_path / "place"
    made.mkdir()
    return made


def pids(place, ranks):
    return [until(reader_of(place / str(r)), f"rank {r}", 20)[0] for r in ranks]


@pytest.mark.parametrize("option", [("-r", "3"), ("-t", "3"), ("-r", "3", "-t", "0:3")], ids=str)
def test_ranks_with_files_go_on_to_their_end(tmp_path, place, option):
    logs = tmp_path / "logs"
    with Stuck("-n", 3, "--log-dir", logs, *option, write(tmp_path / "talk.py", TALK), place) as it:
        gone(pids(place, range(3)))
        for rank in range(3):
            text = (only(logs) / "attempt_0" / str(rank) / "stdout.log").read_text()
            assert text == "".join(f"line {i} {'.' * 100}\n" for i in range(LINES))
        assert it.drain() == 0


@pytest.mark.parametrize("option", [[], ["-t", "3"]], ids=["pipe", "tee"])
@pytest.mark.parametrize("after", ["hang up", "drain"])
def test_failure_ends_the_group_all_the_same(tmp_path, place, option, after):
    script = write(
        tmp_path / "fail.py",
        """
        import os, pathlib, sys, time
        rank = os.environ["RANK"]
        place = pathlib.Path(sys.argv[1])
        if rank == "2":
            while not pathlib.Path(place, "full").exists():
                time.sleep(0.002)
            os._exit(7)
        pathlib.Path(place, rank).write_text(f"{os.getpid()}\\n")
        while True:
            print("." * 200)
        """,
    )
    logs = ["--log-dir", tmp_path / "logs", *option] if option else []
    with Stuck("-n", 3, *logs, script, place) as it:
        ranks = pids(place, (0, 1))
        _wait_until_full(it)
        (place / "full").touch()
        gone(ranks)
        if after == "hang up":
            it.hang_up()
            assert it.process.wait(20) == 7
        else:
            assert it.drain() == 7
            assert b"rank 2 of 3" in it.text


def _wait_until_full(it):
    # Asked of its writing end: bytes do not tell, since no page of it has to be full.
    theirs = os.open(f"/proc/self/fd/{it._ours}", os.O_WRONLY | os.O_NONBLOCK)
    try:
        room = select.poll()
        room.register(theirs, select.POLLOUT)
        until(lambda: not room.poll(0), "a full pipe", 20)
    finally:
        os.close(theirs)


# Each fits into the pipe of its rank, both do not into the console's.
SHORT = """
    import os, pathlib, sys
    for i in range(550):
        print("line", i, "." * 100)
    pathlib.Path(sys.argv[1], os.environ["RANK"]).write_text(f"{os.getpid()}\\n")
"""
LONGER_THAN_A_DRAIN = 3.5  # seconds; the library gives its caller's console 2


def test_slow_reader_gets_everything(tmp_path, place):
    with Stuck("-n", 2, write(tmp_path / "talk.py", SHORT), place) as it:
        gone(pids(place, range(2)))
        with pytest.raises(subprocess.TimeoutExpired):
            it.process.wait(LONGER_THAN_A_DRAIN)
        assert it.drain() == 0
    lines = it.text.decode().splitlines()
    for rank in range(2):
        own = [line for line in lines if line.startswith(f"[{rank}] ")]
        assert own == [f"[{rank}] line {i} {'.' * 100}" for i in range(550)]
    assert len(lines) == 2 * 550


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda n: n.name)
def test_signal_cuts_off_what_is_not_read(tmp_path, place, number):
    logs, errors = tmp_path / "logs", tmp_path / "errors"
    script = write(tmp_path / "talk.py", SHORT)
    with (
        open(errors, "w") as stderr,
        Stuck("-n", 2, "--log-dir", logs, script, place, stderr=stderr) as it,
    ):
        pids(place, range(2))
        events = only(logs) / "events.jsonl"
        until(lambda: '"succeeded"' in events.read_text(), "the end of the group")
        os.kill(it.pid, number)
        assert it.process.wait(20) == 128 + number
    assert errors.read_text().splitlines()[1:] == [
        "procession: the console did not accept all output in time; the rest is not shown [P407]",
        f"procession: talk.py had done its work before {number.name} [P412]",
    ]


# -- one that goes away

UNREAD = "procession: the reader of stdout has exited; the group was stopped [P306]\n"
# Says one line, and goes on when it is told to: by then the reader has gone.
TELL = """
    import os, pathlib, sys, time
    place, rank = pathlib.Path(sys.argv[1]), os.environ["RANK"]
    (place / rank).write_text(f"{os.getpid()}\\n")
    if rank == "1" or sys.argv[2:] != ["fail"]:
        print("first")
    while not (place / "go on").exists():
        time.sleep(0.002)
    if sys.argv[2:] == ["fail"]:
        os._exit(7) if rank == "1" else time.sleep(3600)
    for i in range(2000):
        print("line", i)
    (place / f"{rank} has ended").touch()
    time.sleep(3600 * (sys.argv[2:] == ["stay"]))
"""


@pytest.fixture
def left(tmp_path, place):
    """Give what runs a command whose standard output is closed after its first byte."""

    def run(*words):
        with open(tmp_path / "errors", "w+") as stderr, Stuck(*words, stderr=stderr) as it:
            os.read(it._ours, 1)
            it.hang_up()
            if place in words:
                pids(place, (0, 1))
                (place / "go on").touch()
            code = it.process.wait(20)
            if place in words:
                gone(pids(place, (0, 1)))
            stderr.seek(0)
            return code, stderr.read()

    return run


@pytest.mark.parametrize("words", [["-n", 4], ["--prefix", "{rank}:"]], ids=["many", "one"])
def test_endless_output_ends_with_its_reader(left, words):
    assert left(*words, "yes") == (141, UNREAD)


def test_a_group_is_stopped_when_it_writes_again(left, tmp_path, place):
    assert left("-n", 2, write(tmp_path / "talk.py", TELL), place, "stay") == (141, UNREAD)


def test_failure_counts_more_than_the_reader(left, tmp_path, place):
    code, said = left("-n", 2, write(tmp_path / "talk.py", TELL), place, "fail")
    assert code == 7
    assert "rank 1 of 2" in said
    assert UNREAD not in said


@pytest.mark.parametrize("option", [("-t", "3"), ("-r", "2")], ids=" ".join)
def test_what_files_keep_goes_on_without_its_audience(left, tmp_path, place, option):
    logs = tmp_path / "logs"
    script = write(tmp_path / "talk.py", TELL)
    code, said = left("-n", 2, "--log-dir", logs, *option, script, place)
    assert (code, said) == (0, f"procession: logs in {only(logs)}\n")
    assert {"0 has ended", "1 has ended"} <= set(os.listdir(place))
    if option[0] == "-t":
        text = (only(logs) / "attempt_0/1/stdout.log").read_text()
        assert text == "first\n" + "".join(f"line {i}\n" for i in range(2000))
