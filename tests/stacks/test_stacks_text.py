"""What `faulthandler` writes is read, however it is cut off or mixed up."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seams.explain import stack_of

DUMPS = Path(__file__).parent / "dumps"
HEAD = "Stack (most recent call first):\n"


def frame(file="/home/me/train.py", line=3, function="f"):
    return f'  File "{file}", line {line} in {function}\n'


BOTTOM = frame("/x/site-packages/procession/worker/bootstrap.py", 50, "run") + frame(
    "<string>", 1, "<module>"
)


def stack(text):
    return stack_of(0, 1, "", "S", text.encode())


@pytest.mark.parametrize("path", sorted(DUMPS.iterdir()), ids=lambda path: path.stem)
def test_real_dumps(path):
    frames = stack(path.read_text()).frames
    assert frames[-1][0].endswith("train.py")
    assert frames[-1][2] == "<module>"
    assert not any("procession" in file or file == "<string>" for file, _, _ in frames)


def test_the_last_of_several_dumps_counts():
    first, second = HEAD + frame(function="a"), HEAD + frame(function="b")
    assert stack(first[50:] + second).frames[0][2] == stack(first + second).frames[0][2] == "b"


def test_another_thread_that_got_the_signal_is_not_the_main_one():
    other = frame("/usr/lib/python3.11/threading.py", 1002, "_bootstrap")
    assert stack(HEAD + frame() + other).state == "shows no stack"


@pytest.mark.parametrize(
    "line", ["  <no Python frame>", "  <tstate is freed>", "  <invalid frame>", "rubbish", "\0\xff"]
)
def test_lines_that_are_no_frames(line):
    found = stack(HEAD + line + "\n" + frame())
    assert found.frames == (("/home/me/train.py", 3, "f"),)
    assert stack(HEAD + line + "\n").state == "shows no stack"


@pytest.mark.parametrize(
    ("line", "read"),
    [
        ('  File "a "b".py", line 3 in <lambda>', ('a "b".py', 3, "<lambda>")),
        ('  File "a.py", line ??? in f', ("a.py", 0, "f")),
        ("  File ???, line 7 in ???", ("???", 7, "???")),
    ],
)
def test_frames_of_which_not_all_is_known(line, read):
    assert stack(HEAD + line + "\n").frames == (read,)


def test_a_rank_that_is_not_in_its_program():
    assert stack(HEAD + BOTTOM).state == "has not reached your code"
    looks = frame("<frozen genericpath>", 42, "isdir")
    looks += frame("/x/site-packages/procession/worker/program.py", 33, "run_script")
    assert stack(HEAD + looks + BOTTOM).state == "has not reached your code"
    assert stack("").state == "shows no stack"
    assert stack_of(0, 1, "is gone", "Z", b"").state == "is gone"


def test_modules_run_by_name():
    below = frame("<frozen runpy>", 88, "_run_code") + frame(
        "/x/site-packages/procession/worker/program.py", 90, "run_module"
    )
    found = stack(HEAD + frame() + below + BOTTOM)
    assert found.frames == (("/home/me/train.py", 3, "f"),)


PIECES = st.sampled_from(
    [HEAD, frame(), BOTTOM, "  ...\n", "...\n", "\n", "  <no Python frame>\n", "Stack"]
)


@settings(deadline=None)
@given(st.lists(PIECES | st.text(max_size=20), max_size=30), st.integers(0, 2000))
def test_any_text_is_read(pieces, cut):
    text = "".join(pieces)[cut % 100 :]
    found = stack_of(3, 1, "", "", text.encode(errors="replace"))
    assert bool(found.frames) != bool(found.state)
