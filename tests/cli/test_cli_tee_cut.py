"""A tee whose log file takes no more while the run goes on: the console shows all of it."""

import pytest
from test_cli_full_disk import on_small_disk, procession

from support import write

LINES = 20_000
CUT = "procession: log files of ranks are cut off: no space is left on the disk; "

TALK = f"""
    import sys
    for i in range({LINES}):
        print("line", i, "." * (i % 100))
    print("the end", file=sys.stderr)
"""
SHELL = f"i=0; while [ $i -lt {LINES} ]; do echo line $i; i=$((i + 1)); done; echo the end >&2"
YES = f"yes line | head -n {LINES}; echo the end >&2"


def lines_of(rank, shown):
    mark = f"[{rank}] "
    return [line.removeprefix(mark) for line in shown.splitlines() if line.startswith(mark)]


def assert_whole(done, expected, ranks=(0, 1)):
    """Assert that all was shown once and in order, and that the loss in files was said once."""
    assert done.returncode == 74, done.stderr
    for rank in ranks:
        assert lines_of(rank, done.stdout) == expected
        assert lines_of(rank, done.stderr) == ["the end"]
    said = [line for line in done.stderr.splitlines() if "o space" in line]
    assert len(said) == 1, done.stderr
    assert said[0].startswith(CUT)


def talk_of(tmp_path):
    return write(tmp_path / "talk.py", TALK), [f"line {i} {'.' * (i % 100)}" for i in range(LINES)]


def as_text(lines):
    return "".join(f"{line}\n" for line in lines)


def keeping(kept, disk, *words):
    """Make words that run others, and then take the log files of a small disk away from it."""
    script = 'kept=$0; disk=$1; shift; "$@"; code=$?; cp -r "$disk" "$kept"; exit $code'
    return ["sh", "-c", script, kept, disk, *words]


def logs_in(kept, stream="stdout"):
    found = sorted(kept.glob(f"*/attempt_0/*/{stream}.log"))
    assert len(found) == 2
    assert not list(kept.rglob("*.part"))
    return [path.read_text() for path in found]


def of_small_disk(tmp_path, *words, room="1m"):
    disk, kept = tmp_path / "disk", tmp_path / "kept"
    tee = procession("-n", 2, "--log-dir", disk, "-t", 3, *words)
    return on_small_disk(room, disk, *keeping(kept, disk, *tee)), kept


def test_python_on_a_small_disk(tmp_path):
    script, expected = talk_of(tmp_path)
    done, kept = of_small_disk(tmp_path, script)
    assert_whole(done, expected)
    for text in logs_in(kept):
        assert len(text) < 1 << 20
        assert as_text(expected).startswith(text)


@pytest.mark.parametrize("program", [SHELL, YES])
def test_command_on_a_small_disk(tmp_path, program):
    done, kept = of_small_disk(tmp_path, "--no-python", "sh", "-c", program, room="128k")
    expected = [f"line {i}" for i in range(LINES)] if program == SHELL else ["line"] * LINES
    assert_whole(done, expected)
    for text in logs_in(kept):
        assert len(text) < 1 << 17
        assert as_text(expected).startswith(text)


def test_a_file_stays_cut_when_there_is_room_again(tmp_path):
    disk = tmp_path / "disk"
    script = write(
        tmp_path / "room.py",
        """
        import fcntl, os, sys, termios, time
        ballast = sys.argv[1] + "/ballast" + os.environ["RANK"]
        with open(ballast, "wb") as f:
            f.write(bytes(200_000))
        for i in range(20_000):
            print("line", i)
        while fcntl.ioctl(1, termios.FIONREAD, bytes(4)) != bytes(4):  # until all is read
            time.sleep(0.01)
        open(sys.argv[1] + "/../read" + os.environ["RANK"], "x").close()
        while not all(os.path.exists(f"{sys.argv[1]}/../read{rank}") for rank in (0, 1)):
            time.sleep(0.01)
        os.unlink(ballast)
        print("more")
        print("the end", file=sys.stderr)
        """,
    )
    done, kept = of_small_disk(tmp_path, script, disk, room="500k")
    expected = [*(f"line {i}" for i in range(20_000)), "more"]
    assert_whole(done, expected)
    for text in logs_in(kept):
        assert "more" not in text
        assert as_text(expected).startswith(text)
