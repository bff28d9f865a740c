"""What a pipe behind the command gets: whole lines, prefixes, nothing lost, nothing harmful."""

import re

import pytest
from commandline import PROCESSION, good, only, run

from support import run_program, write


@pytest.mark.parametrize(("nproc", "tee"), [(1, []), (4, []), (4, ["-t", "3"])], ids=str)
def test_no_line_is_torn_or_lost(tmp_path, nproc, tee):
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


def test_two_streams_in_one_pipe_share_no_line(tmp_path):
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
    done = run_program("sh", "-c", 'exec "$@" 2>&1', "sh", *PROCESSION, "run", "-n", "2", script)
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert len(lines) == 12_000
    assert all(re.fullmatch(r"\[[01]\] (out|err) \d+ of \1", line) for line in lines)


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


def test_only_these_ranks_on_the_console(hello):
    done = run("-n", 4, "--local-ranks-filter", "0-1,3", hello)
    assert sorted(done.stdout.splitlines()) == [f"[{r}] hello from {r}" for r in (0, 1, 3)]
    assert sorted(done.stderr.splitlines()) == [f"[{r}] problem of {r}" for r in (0, 1, 3)]


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
