"""What a pipe behind the command gets: whole lines, prefixes, nothing lost, nothing harmful."""

import os
import re
import shutil
import signal
import subprocess
import tempfile

import pytest
from commandline import PROCESSION, Watched, good, only, run

from support import write

HELLO = """
    import os, sys
    print("hello from", os.environ["RANK"])
    print("problem of", os.environ["RANK"], file=sys.stderr)
"""
SPEAKERS = {
    "script": lambda path: [path],
    "module": lambda path: ["-m", path.stem],
    "spawn": lambda path: ["--start-method", "spawn", path],
    "program": lambda path: ["--no-python", "python3", path],
}


@pytest.fixture
def hello(tmp_path):
    return write(tmp_path / "hello.py", HELLO)


def test_each_line_of_several_ranks_has_its_rank_in_front(hello):
    done = run("-n", 3, hello)
    assert sorted(done.stdout.splitlines()) == [f"[{r}] hello from {r}" for r in range(3)]
    assert sorted(done.stderr.splitlines()) == [f"[{r}] problem of {r}" for r in range(3)]
    assert done.returncode == 0


def test_one_rank_passes_through(hello):
    done = run(hello)
    assert (done.stdout, done.stderr) == ("hello from 0\n", "problem of 0\n")


@pytest.mark.parametrize("tee", [[], ["-t", "3"]], ids=["pipe", "tee"])
@pytest.mark.parametrize("nproc", [1, 4])
def test_no_line_is_torn_or_lost(tmp_path, tee, nproc):
    count = 20_000
    # Pieces of all sizes, that end anywhere in a line.
    script = write(
        tmp_path / "noisy.py",
        f"""
        import os, random
        rank = os.environ["RANK"]
        rng = random.Random(rank)
        text = "".join(
            f"rank {{rank}} line {{i}} {{'x' * rng.randrange(60)}}.\\n" for i in range({count})
        ).encode()
        at = 0
        while at < len(text):
            size = rng.choice((1, 7, 100, 1000, 5000, 70000))
            os.write(1, text[at:at + size])
            at += size
        """,
    )
    logs = ["--log-dir", tmp_path / "logs"] if tee else []
    words = [*logs, *tee, "--prefix", "[{rank}] "] if nproc == 1 else [*logs, *tee]
    seen = [0] * nproc
    line = re.compile(r"\[(\d)\] rank (\d) line (\d+) x*\.")
    for text in good("-n", nproc, *words, script).splitlines():
        found = line.fullmatch(text)
        assert found, text
        prefix, rank, number = map(int, found.groups())
        assert prefix == rank
        assert number == seen[rank]
        seen[rank] += 1
    assert seen == [count] * nproc


@pytest.mark.parametrize("tee", [[], ["-t", "3"]], ids=["pipe", "tee"])
def test_two_streams_in_one_pipe_share_no_line(tmp_path, tee):
    script = write(
        tmp_path / "both.py",
        """
        import os
        for i in range(3000):
            for piece in (b"out ", b"%d" % i, b" of out\\n"):
                os.write(1, piece)
            for piece in (b"err ", b"%d" % i, b" of err\\n"):
                os.write(2, piece)
        """,
    )
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" 2>&1', "sh", *_words("-n", 2, *tee, script)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=40,
        check=True,
    )
    lines = done.stdout.splitlines()
    if tee:  # where the logs are
        lines = [line for line in lines if not line.startswith("procession: logs in ")]
    assert len(lines) == 12_000
    assert all(re.fullmatch(r"\[[01]\] (out|err) \d+ of \1", line) for line in lines)
    assert _clean(tee)


def _words(*words):
    return [*PROCESSION, "run", *map(str, words)]


def _clean(tee):
    """Remove the run's directory, which a tee without --log-dir makes and keeps."""
    made = os.listdir(tempfile.gettempdir())
    for name in made:
        shutil.rmtree(os.path.join(tempfile.gettempdir(), name))
    return len(made) == bool(tee)


@pytest.mark.parametrize("nproc", [2])
@pytest.mark.parametrize("tee", [[], ["-t", "3"]], ids=["pipe", "tee"])
def test_progress_bar_shows_its_latest_state(tmp_path, nproc, tee):
    script = write(
        tmp_path / "bar.py",
        """
        import os, pathlib, sys, time
        rank = os.environ["RANK"]
        go_on = pathlib.Path(sys.argv[1])
        for done in range(51):
            sys.stderr.write(f"\\r{done:3}%|{'#' * done}| of {rank}")
        while not go_on.exists():
            time.sleep(0.002)
        for done in range(51, 101):
            sys.stderr.write(f"\\r{done:3}%|{'#' * done}| of {rank}")
        sys.stderr.write("\\n")
        sys.stderr.write("after\\n")
        """,
    )
    go_on = tmp_path / "go on"
    logs = ["--log-dir", tmp_path / "logs"] if tee else []
    with Watched("run", "-n", nproc, *logs, *tee, script, go_on) as watched:
        watched.shows(b"[0]  50%|" + b"#" * 50 + b"| of 0", b"[1]  50%|")
        go_on.touch()
        assert watched.end() == 0
    lines = [ln for ln in watched.err.decode().splitlines() if not ln.startswith("procession:")]
    assert b"\r" not in watched.err
    for rank in range(nproc):
        own = [line[4:] for line in lines if line.startswith(f"[{rank}] ")]
        assert own[-2:] == [f"100%|{'#' * 100}| of {rank}", "after"]
        states = [int(line.partition("%")[0]) for line in own[:-1]]
        assert states == sorted(set(states))  # no state twice, none after a later one
    if tee:  # the file has it all
        text = (only(tmp_path / "logs") / "attempt_0/1/stderr.log").read_bytes()
        assert text.count(b"\r") == 101


def test_partial_line_is_shown_before_its_end_comes(tmp_path):
    script = write(
        tmp_path / "ask.py",
        """
        import os
        if os.environ["RANK"] == "1":
            print("hello", input("your name? "))
        """,
    )
    with Watched("run", "-n", 2, "--stdin", 1, script, stdin=subprocess.PIPE) as watched:
        watched.shows(b"[1] your name? ")
        watched.process.stdin.write(b"Ada\n")
        watched.process.stdin.close()
        assert watched.end() == 0
    assert watched.out == b"[1] your name? hello Ada\n"


def test_last_line_without_newline_is_ended(tmp_path):
    script = write(tmp_path / "end.py", 'print("the end", end="")')
    assert sorted(good("-n", 2, script).splitlines()) == ["[0] the end", "[1] the end"]
    assert good("-n", 2, script).endswith("\n")


def test_bytes_that_are_not_text(tmp_path):
    odd = bytes(range(0xA0, 0x100)) + b" caf\xe9 \xff\xfe"
    script = write(
        tmp_path / "odd.py",
        f"""
        import os
        os.write(1, {odd!r} + b"\\n")
        os.write(1, b"zero \\0 zero\\n")
        """,
    )
    out = good("-n", 2, "--log-dir", tmp_path / "logs", "-t", "1", script, text=False)
    assert sorted(out.splitlines()) == sorted(
        line for r in b"01" for line in (b"[%c] %s" % (r, odd), b"[%c] zero ^@ zero" % r)
    )
    log = only(tmp_path / "logs") / "attempt_0" / "0" / "stdout.log"
    assert log.read_bytes() == odd + b"\nzero \0 zero\n"


@pytest.mark.parametrize("tee", [[], ["-t", "3"]], ids=["pipe", "tee"])
def test_a_line_of_10_megabytes(tmp_path, tee):
    script = write(
        tmp_path / "long.py",
        """
        import os
        rank = os.environ["RANK"]
        print("short", rank)
        print(rank * 10_000_000)
        print("end", rank)
        """,
    )
    logs = ["--log-dir", tmp_path / "logs"] if tee else []
    lines = good("-n", 2, *logs, *tee, script).splitlines()
    for rank in "01":
        own = [line for line in lines if line.startswith(f"[{rank}] ")]
        whole = "".join(line[4:] for line in own)
        assert whole == f"short {rank}" + rank * 10_000_000 + f"end {rank}"
        assert (own[0], own[-1]) == (f"[{rank}] short {rank}", f"[{rank}] end {rank}")
    # It is shown in more than one line only where it came in parts.
    assert len(lines) <= 12


def test_escape_sequences_are_harmless_on_the_console_and_kept_in_the_file(tmp_path):
    rude = (
        "\x1b[2J\x1b[H clear, \x1b]0;title\x07 title, \x1b[31mred\x1b[0m, \x1b[1A up, "
        "\x08 back, \x1b[6n report, \x1bP$q\x1b\\ string, \x9b2J csi, \x7f"
    )
    script = write(tmp_path / "rude.py", f"print({rude!r})")
    out = good("-n", 2, "--log-dir", tmp_path / "logs", "-t", "3", script)
    shown = (
        "^[[2J^[[H clear, ^[]0;title^G title, \x1b[31mred\x1b[0m, ^[[1A up, "
        "^H back, ^[[6n report, ^[P$q^[\\ string, <9b>2J csi, ^?"
    )
    assert sorted(out.splitlines()) == [f"[0] {shown}", f"[1] {shown}"]
    log = only(tmp_path / "logs") / "attempt_0/1/stdout.log"
    assert log.read_bytes().decode() == rude + "\n"


@pytest.mark.parametrize("how", SPEAKERS)
def test_last_words_of_a_rank_that_kills_itself(tmp_path, how):
    script = write(
        tmp_path / "suicide.py",
        """
        import os, signal, sys
        print("first words")
        print("last words", end="")
        sys.stderr.write("last complaint")
        os.kill(os.getpid(), signal.SIGKILL)
        """,
    )
    for nproc in (1, 2):
        logs = tmp_path / f"logs{nproc}"
        words = ["-n", nproc, "--log-dir", logs, "-t", "3", *SPEAKERS[how](script)]
        done = run(*words, cwd=tmp_path)
        assert done.returncode == 128 + signal.SIGKILL
        assert "last words" in done.stdout
        assert "last complaint" in done.stderr
        # Rank 1 may have been ended before it spoke; one of them killed itself.
        files = list((only(logs) / "attempt_0").glob("*/stdout.log"))
        assert "first words\nlast words" in [f.read_text() for f in files]


@pytest.mark.parametrize("how", SPEAKERS)
def test_console_has_last_words_without_files(tmp_path, how):
    script = write(
        tmp_path / "suicide.py",
        """
        import os, signal
        print("last words", end="")
        os.kill(os.getpid(), signal.SIGKILL)
        """,
    )
    done = run("-n", 2, *SPEAKERS[how](script), cwd=tmp_path)
    assert done.returncode == 128 + signal.SIGKILL
    assert re.search(r"^\[[01]\] last words$", done.stdout, re.MULTILINE)


@pytest.mark.parametrize(
    ("template", "prefix"),
    [
        ("<{rank}/{local_rank}> ", "<3/3> "),
        ("{name}:{rank:>{width}} ", "hello.py: 3 "),
        ("{{{rank}}}", "{3}"),
        ("Ränge {rank}: ", "Ränge 3: "),
    ],
)
def test_prefix_template(hello, template, prefix):
    out = good("-n", 11, "--prefix", template, hello)
    assert f"{prefix}hello from 3" in out.splitlines()


def test_without_prefix_ranks_write_to_the_console_themselves(tmp_path):
    script = write(tmp_path / "one.py", 'import os; os.write(1, b"one write\\n")')
    assert good("-n", 3, "--prefix", "", script) == "one write\n" * 3


def test_prefix_for_one_rank(hello):
    assert good("--prefix", "#{rank} ", hello) == "#0 hello from 0\n"


@pytest.mark.parametrize(
    ("ranks", "shown"), [("0,2", {0, 2}), ("1-2", {1, 2}), ("3", {3}), ("0-1,3", {0, 1, 3})]
)
def test_only_these_ranks_on_the_console(hello, ranks, shown):
    done = run("-n", 4, "--local-ranks-filter", ranks, hello)
    assert sorted(done.stdout.splitlines()) == [f"[{r}] hello from {r}" for r in sorted(shown)]
    assert sorted(done.stderr.splitlines()) == [f"[{r}] problem of {r}" for r in sorted(shown)]


def test_filtered_ranks_keep_their_files(hello, tmp_path):
    logs = tmp_path / "logs"
    out = good("-n", 3, "--local-ranks-filter", "1", "--log-dir", logs, "-t", "1", hello)
    assert out == "[1] hello from 1\n"
    for rank in range(3):
        text = (only(logs) / "attempt_0" / str(rank) / "stdout.log").read_text()
        assert text == f"hello from {rank}\n"


def test_output_of_a_child_that_outlives_its_rank_is_cut_off(tmp_path):
    script = write(
        tmp_path / "stray.py",
        """
        import os
        print("rank speaks")
        if not os.fork():
            os.setsid()
            while True:
                os.write(1, b"stray speaks\\n")
        """,
    )
    done = run("-n", 2, script)
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert {"[0] rank speaks", "[1] rank speaks"} <= set(lines)
    assert all(re.fullmatch(r"\[[01]\] (rank|stray) speaks", line) for line in lines[:-2])
