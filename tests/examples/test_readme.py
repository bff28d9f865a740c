"""The examples of README.md run as they are printed, each by itself: see `pages`."""

import re
import shlex
import shutil

import pytest
from pages import FILE, ROOT, blocks, steps

from support import run_procession, run_python

README = (ROOT / "README.md").read_text()


def scripts():
    return [
        pytest.param(block.text, id=f"line {block.line}")
        for block in blocks(README)
        if block.language == "python" and not FILE.match(block.text)
    ]


def commands(program):
    """Give (words, files so far) of each command of this program."""
    found, files = [], {}
    for block in blocks(README):
        if block.language == "python" and (named := FILE.match(block.text)):
            files = {**files, named[1]: block.text}
        elif block.language == "console":
            for step in steps(block):
                for part in re.split(r"&&|;", step.command):
                    words = shlex.split(part)
                    if words and words[0] == program:
                        name = f"line {block.line}: {part}"
                        found.append(pytest.param(words[1:], files, id=name))
    return found


def test_there_is_something_to_test():
    assert {block.language for block in blocks(README)} >= {"python", "console"}
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
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    done = run_procession(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout


@pytest.mark.parametrize(("words", "files"), commands("make"))
def test_make(words, files):
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {w for w in words if "=" not in w and not w.startswith("-")} <= targets
