"""What the command and its pages say is true, and is said where it helps."""

import os
import re
from pathlib import Path

from commandline import command, run

from support import write

ROOT = Path(__file__).resolve().parents[2]


def test_an_option_behind_the_program_is_noticed(tmp_path):
    write(tmp_path / "hello.py", "import sys; print(sys.argv[1:])")
    said = "-n 4 went to hello.py; for procession, type procession run -n 4 hello.py"
    done = run("hello.py", "-n", "4", cwd=tmp_path)
    assert (done.returncode, done.stdout, said in done.stderr) == (0, "['-n', '4']\n", True)
    write(tmp_path / "takes.py", "count = '-n'")
    silent = (
        "-n 1 hello.py -n 4",
        "-- hello.py -n 4",
        "hello.py --lr 4",
        "takes.py -n 4",
        "hello.py -v",
    )
    for words in (*silent, "hello.py --nproc_per_node 4", "-x A=1 hello.py -n4"):
        noticed = "went to" in run(*words.split(), cwd=tmp_path).stderr
        assert noticed == (words not in silent), words


def test_values_in_the_same_word_are_shown_so():
    """`--warm 30 train.py` would run a program 30."""
    shown = command("run", "--help-all").stdout + command("run", "-h").stdout
    assert len(re.findall(r"--warm\[=SECONDS\]", shown)) == 2
    assert not re.search(r"--[a-z-]+ \[", shown)


def test_help_fits_a_screen():
    assert len(command("run", "-h").stdout.splitlines()) <= 40


def test_nobody_is_told_to_turn_on_what_is_on():
    """Ranks have faulthandler."""
    texts = [*ROOT.glob("docs/**/*.md"), ROOT / "README.md", *ROOT.glob("src/**/*.md")]
    assert len(texts) > 20
    assert not [str(path) for path in texts if "PYTHONFAULTHANDLER" in path.read_text()]


def test_the_page_of_variables_has_those_of_ranks():
    page = (ROOT / "docs" / "reference" / "environment.md").read_text()
    always, some = page.partition("Some ranks also have")[::2]
    always, some = (set(re.findall(r"(?<=[|,] )`([A-Z_]+)`", part)) for part in (always, some))
    words = ("-n", 2, "--prefix", "", "--local-ranks-filter", 0, "env")
    shown = run(*words, env={**os.environ}).stdout.splitlines()
    given = {line.partition("=")[0] for line in shown}
    assert always <= given
    assert given - os.environ.keys() <= always | some
