"""What `faulthandler` writes is read, however it is cut off or mixed up."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seams.explain import main_thread, own_frames, read_dump, stack_of

DUMPS = Path(__file__).parent / "dumps"
HEAD = "Current thread 0x00007f0000000001 (most recent call first):\n"
OTHER = "Thread 0x00007f0000000002 (most recent call first):\n"


def frame(file="/home/me/train.py", line=3, function="f"):
    return f'  File "{file}", line {line} in {function}\n'


BOTTOM = frame("/x/site-packages/procession/worker/bootstrap.py", 50, "run") + frame(
    "<string>", 1, "<module>"
)


def stack(text):
    return stack_of(0, 1, "", "S", text.encode())


@pytest.mark.parametrize("path", sorted(DUMPS.iterdir()), ids=lambda path: path.stem)
def test_real_dumps(path):
    threads = read_dump(path.read_text())
    assert len(threads) == path.read_text().count("most recent call first")
    frames = own_frames(main_thread(threads).frames)
    assert frames[-1][0].endswith("train.py")
    assert frames[-1][2] == "<module>"
    assert not any("procession" in file or file == "<string>" for file, _, _ in frames)
    assert not any(thread.cut for thread in threads)


def test_the_main_thread_is_ours_wherever_it_stands():
    text = OTHER + frame(function="other") + "\n" + HEAD + frame(function="main") + BOTTOM
    assert stack(text).frames == (("/home/me/train.py", 3, "main"),)
    text = HEAD + frame(function="main") + BOTTOM + "\n" + OTHER + frame(function="other")
    assert stack(text).frames == (("/home/me/train.py", 3, "main"),)


def test_a_rank_that_writes_is_where_it_writes():
    """Through a stream of ours, which is no frame of the program."""
    writes = frame("/x/site-packages/procession/worker/streams.py", 81, "write")
    found = stack(HEAD + writes + frame(function="main") + BOTTOM)
    assert found.frames == (("/home/me/train.py", 3, "main"),)
    assert not stack(HEAD + writes + BOTTOM).frames


def test_of_more_than_a_hundred_threads_the_one_that_wrote_counts():
    others = "".join(
        f"Thread 0x{n:016x} (most recent call first):\n{frame(function='other')}\n"
        for n in range(50, 149)
    )
    text = HEAD + frame(function="main") + "\n" + others + "...\n"
    assert stack(text).frames[0][2] == "main"


def test_the_last_of_several_dumps_counts():
    first = OTHER + frame(function="a") + "\n" + HEAD + frame(function="b")
    second = OTHER + frame(function="c") + "\n" + HEAD + frame(function="d")
    assert [t.frames[0][2] for t in read_dump(first + second)] == ["c", "d"]
    assert stack(first[50:] + second).frames[0][2] == "d"


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


def test_newer_headers():
    for head in (
        "Current thread 0x00007f0000000001 [MainThread] (most recent call first):\n",
        "Thread 0x00007f0000000001 [a (b)] (most recent call first):\n",
        "Stack (most recent call first):\n",
    ):
        assert stack(head + frame()).frames == (("/home/me/train.py", 3, "f"),)


def test_a_rank_that_is_not_in_its_program():
    assert stack(HEAD + BOTTOM).state == "shows no frame of the program"
    assert stack("").state == "shows no stack"
    assert stack_of(0, 1, "is gone", "Z", b"").state == "is gone"


def test_modules_run_by_name():
    below = frame("<frozen runpy>", 88, "_run_code") + frame(
        "/x/site-packages/procession/worker/program.py", 90, "run_module"
    )
    found = stack(HEAD + frame() + below + BOTTOM)
    assert found.frames == (("/home/me/train.py", 3, "f"),)


PIECES = st.sampled_from(
    [HEAD, OTHER, frame(), BOTTOM, "  ...\n", "...\n", "\n", "  <no Python frame>\n", "Stack"]
)


@settings(deadline=None)
@given(st.lists(PIECES | st.text(max_size=20), max_size=30), st.integers(0, 2000))
def test_any_text_is_read(pieces, cut):
    text = "".join(pieces)[cut % 100 :]
    found = stack_of(3, 1, "", "", text.encode(errors="replace"))
    assert bool(found.frames) != bool(found.state)


@settings(deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_are_read(data):
    assert stack_of(3, None, "", "", HEAD.encode() + data).rank == 3


@settings(deadline=None)
@given(st.data())
def test_what_is_written_is_read(data):
    names = st.text("abc_<>", min_size=1, max_size=8)
    frames = data.draw(st.lists(st.tuples(names, st.integers(1, 9999), names), max_size=20))
    text = HEAD + "".join(frame(*each) for each in frames)
    (thread,) = read_dump(text)
    assert thread.frames == tuple(frames)
