"""A reader of the command's output that goes away, as `head` does."""

import os
import subprocess

import pytest
from commandline import PROCESSION, only

from support import gone, reader_of, until, write

UNREAD = "procession: nobody reads the standard output any more; the group was stopped [P306]"
# Says one line, and goes on when it is told to: by then the reader has gone.
TALK = """
    import os, pathlib, sys, time
    place, rank = pathlib.Path(sys.argv[1]), os.environ["RANK"]
    (place / rank).write_text(f"{os.getpid()}\\n")
    print("first")
    while not (place / "go on").exists():
        time.sleep(0.002)
    for i in range(2000):
        print("line", i)
    (place / f"{rank} has ended").touch()
"""


@pytest.fixture
def place(tmp_path):
    made = tmp_path / "place"
    made.mkdir()
    return made


class Left:
    """A command whose standard output is read up to its first line, and then closed."""

    def __init__(self, *words, stderr=subprocess.PIPE):
        self.process = subprocess.Popen(
            [*PROCESSION, "run", *map(str, words)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )

    def __enter__(self):
        self.first = self.process.stdout.readline()
        self.process.stdout.close()
        return self

    def end(self):
        """Wait for its end; gives the exit code and what it said."""
        try:
            _, said = self.process.communicate(timeout=20)
        finally:
            self.process.kill()
        return self.process.returncode, said

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if self.process.stderr:
            self.process.stderr.close()


def ranks(place, nproc):
    return [until(reader_of(place / str(r)), f"rank {r}", 20)[0] for r in range(nproc)]


@pytest.mark.parametrize("words", [["-n", 4], ["--prefix", "{rank}:"]], ids=["many", "one"])
def test_endless_output_ends_with_its_reader(words):
    with Left(*words, "yes") as left:
        assert left.end() == (141, UNREAD + "\n")
    assert left.first in ("[0] y\n", "[1] y\n", "[2] y\n", "[3] y\n", "0:y\n")


def test_a_group_is_stopped_when_it_writes_again(tmp_path, place):
    with Left("-n", 2, write(tmp_path / "talk.py", TALK + "    time.sleep(3600)"), place) as left:
        pids = ranks(place, 2)
        (place / "go on").touch()
        assert left.end() == (141, UNREAD + "\n")
        gone(pids)


def test_pipeline_of_a_shell():
    script = '"$@" | head -2 | wc -l; echo "${PIPESTATUS[0]}"'
    done = subprocess.run(
        ["bash", "-c", script, "bash", *PROCESSION, "run", "-n", "2", "yes"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.stdout.split() == ["2", "141"]
    assert done.stderr == UNREAD + "\n"


@pytest.mark.parametrize("option", [("-t", "3"), ("-r", "2"), ("-t", "1:1")], ids=" ".join)
def test_what_files_keep_goes_on_without_its_audience(tmp_path, place, option):
    logs = tmp_path / "logs"
    script = write(tmp_path / "talk.py", TALK)
    with Left("-n", 2, "--log-dir", logs, *option, script, place) as left:
        pids = ranks(place, 2)
        (place / "go on").touch()
        assert left.end() == (0, f"procession: logs in {only(logs)}\n")
        gone(pids)
    assert {"0 has ended", "1 has ended"} <= set(os.listdir(place))
    if option[0] == "-t":
        text = (only(logs) / "attempt_0/1/stdout.log").read_text()
        assert text == "first\n" + "".join(f"line {i}\n" for i in range(2000))


def test_failure_counts_more_than_the_reader(tmp_path, place):
    script = write(
        tmp_path / "fail.py",
        """
        import os, pathlib, signal, sys, time
        if os.environ["RANK"] == "0":
            while True:
                signal.pause()
        print("first")
        while not pathlib.Path(sys.argv[1], "go on").exists():
            time.sleep(0.002)
        os._exit(7)
        """,
    )
    with Left("-n", 2, script, place) as left:
        (place / "go on").touch()
        code, said = left.end()
    assert code == 7
    assert "rank 1 of 2" in said
    assert UNREAD not in said


# Without the command, ranks go on: the library does not decide what its caller's output is for.
