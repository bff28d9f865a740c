"""A tee whose log file takes no more while the run goes on: the console shows all of it."""

import subprocess

import pytest
from commandline import PROCESSION
from test_cli_full_disk import on_small_disk, procession

from support import write

LINES = 20_000
CUT = "procession: log files of ranks are cut off: no space is left on the disk; "
KIB = 64  # that a file may have, where that is limited

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
        import os, sys
        ballast = sys.argv[1] + "/ballast" + os.environ["RANK"]
        with open(ballast, "wb") as f:
            f.write(bytes(200_000))
        for i in range(20_000):
            print("line", i)
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


def with_small_files(*words):
    """Run the command where a file takes no more than some KiB, though the disk has room."""
    limited = f'ulimit -f {KIB * 1024 // 512}; exec "$@"'
    return subprocess.run(
        ["sh", "-c", limited, "sh", *PROCESSION, "run", *map(str, words)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=40,
        check=False,
    )


@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_python_where_the_disk_becomes_full_later(tmp_path, method):
    script, expected = talk_of(tmp_path)
    options = ("-n", 2, "--start-method", method, "--log-dir", tmp_path / "logs", "-t", 3)
    done = with_small_files(*options, script)
    assert_whole(done, expected)
    for text in logs_in(tmp_path / "logs"):
        assert len(text) == KIB << 10
        assert as_text(expected).startswith(text)


def test_what_a_rank_starts_then_is_shown_too(tmp_path):
    script = write(
        tmp_path / "child.py",
        f"""
        import os, subprocess, sys
        for i in range({LINES}):
            print("line", i)
        subprocess.run(["echo", "child"])
        os.write(1, b"by its descriptor\\n")
        print("the end", file=sys.stderr)
        """,
    )
    done = with_small_files("-n", 2, "--log-dir", tmp_path / "logs", "-t", 3, script)
    assert_whole(done, [*(f"line {i}" for i in range(LINES)), "child", "by its descriptor"])


def test_a_group_that_has_just_enough_descriptors_starts(tmp_path):
    script = write(tmp_path / "hi.py", "print('hi')")
    few = 'ulimit -n 160; exec "$@"'
    words = (*PROCESSION, "run", "-n", 16, "--log-dir", tmp_path / "logs", "-t", 3, script)
    done = subprocess.run(
        ["sh", "-c", few, "sh", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=40,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("hi\n") == 16


@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_a_destructor_may_print_when_modules_are_gone(tmp_path, method):
    script = write(
        tmp_path / "late.py",
        """
        import _thread

        class Late:
            def __del__(self):
                print("late")

        _thread.kept = Late()
        """,
    )
    words = ("-n", 2, "--start-method", method, "--log-dir", tmp_path / "logs", "-t", 3, script)
    done = with_small_files(*words)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["[0] late", "[1] late"]


def test_a_failure_has_its_last_words_in_the_report(tmp_path):
    script = write(
        tmp_path / "bad.py",
        """
        import os, sys
        for i in range(20_000):
            print("line", i, file=sys.stderr)
        os.write(2, b"last words\\n")
        os.abort()
        """,
    )
    done = with_small_files("-n", 2, "--log-dir", tmp_path / "logs", "-t", 2, script)
    assert done.returncode == 134, done.stderr
    report = done.stderr[done.stderr.index("bad.py failed: ") :]
    assert "last words" in report
    assert len([line for line in done.stderr.splitlines() if line.startswith(CUT)]) == 1


def test_a_rank_that_starts_again_has_whole_files_again(tmp_path):
    script = write(
        tmp_path / "again.py",
        """
        import os, sys
        again = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
        for i in range(10 if again else 20_000):
            print("line", again, i)
        sys.exit(0 if again else 3)
        """,
    )
    logs = tmp_path / "logs"
    done = with_small_files("-n", 1, "--max-restarts", 1, "--log-dir", logs, "-t", 3, script)
    assert done.returncode == 74, done.stderr
    assert CUT in done.stderr
    shown = [line for line in done.stdout.splitlines() if line.startswith("line ")]
    assert shown == [f"line {k} {i}" for k in (0, 1) for i in range(10 if k else 20_000)]
    (path,) = logs.glob("*/attempt_1/0/stdout.log")
    assert path.read_text().splitlines() == shown[-10:]
