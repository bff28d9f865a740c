"""The examples of README.md run as they are printed.

A block of Python is a script. One whose first line is `# file: NAME` is the file of that name in
the directory where the commands behind it run. Of a console block, the lines that begin with
`$ procession` are run there, and those with `$ make` must name targets of the Makefile.
"""

import re
import shlex
import shutil
from pathlib import Path

import pytest

from support import run_python

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# file: (\S+)\n")

pytestmark = pytest.mark.skipif(len(README.splitlines()) < 10, reason="README.md is not written")


def blocks():
    """Give (line, language, text) of each block."""
    return [
        (README.count("\n", 0, found.start()) + 1, found[1], found[2])
        for found in FENCE.finditer(README)
    ]


def scripts():
    return [
        pytest.param(text, id=f"line {line}")
        for line, language, text in blocks()
        if language == "python" and not FILE.match(text)
    ]


def commands(program):
    """Give (words, files so far) of each command of this program."""
    found, files = [], {}
    for line, language, text in blocks():
        if language == "python" and (named := FILE.match(text)):
            files = {**files, named[1]: text}
        elif language == "console":
            said = (part for part in text.splitlines() if part.startswith("$ "))
            for part in said:
                for word in re.split(r"&&|;", part[2:].partition(" #")[0]):
                    words = shlex.split(word)
                    if words and words[0] == program:
                        found.append(pytest.param(words[1:], files, id=f"line {line}: {word}"))
    return found


def test_there_is_something_to_test():
    languages = {language for _, language, _ in blocks()}
    assert languages >= {"python", "console"}
    assert scripts()
    assert commands("procession")
    assert commands("make")


@pytest.mark.parametrize("text", scripts())
def test_python(text, tmp_path):
    (tmp_path / "example.py").write_text(text)
    done = run_python("example.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("words", "files"), commands("procession"))
def test_procession(words, files, tmp_path):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    examples = tmp_path / "examples"
    shutil.copytree(ROOT / "examples", examples)
    done = run_python("-m", "procession", *words, cwd=tmp_path)
    if "--fail-rank" in words:
        assert done.returncode == 1
    else:
        assert done.returncode == 0, done.stderr
    assert done.stdout


@pytest.mark.parametrize(("words", "files"), commands("make"))
def test_make(words, files):
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {w for w in words if "=" not in w and not w.startswith("-")} <= targets


def test_report_in_the_readme_is_like_a_real_one():
    shown = next((t for _, lang, t in blocks() if lang == "text" and " failed: rank " in t), None)
    if shown is None:
        pytest.skip("README.md shows no report")
    words = ("-m", "procession", "run", "-n", 4, "examples/digits.py", "--fail-rank", 2)
    for _ in range(4):
        done = run_python(*words, cwd=ROOT)
        real = done.stderr[done.stderr.index("digits.py failed: ") :]
        # On a busy machine, all others may notice by themselves, before the signal comes to them.
        if "ended by the group:" in real:
            break
    for line in (shown.splitlines()[0], "ended by the group:"):
        assert _numbers_out(line) in _numbers_out(real)


def _numbers_out(text):
    return re.sub(r"\[[\d, ]+\]|\d+\.\d+ \w+|\d+", "N", text)


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)]+)\)", README):
        if not target.startswith(("http", "#")):
            assert (ROOT / target).exists(), target
