"""Log files that take no more: what their writers could not write there is shown all the same."""

import os

import pytest
from following import following, piped

from seams.output import Source


@pytest.fixture
def console():
    with piped() as (console, viewer):
        console.viewer = viewer
        yield console


def test_a_copy_of_what_comes_through_a_pipe(console, tmp_path):
    copy = os.open(tmp_path / "copy", os.O_WRONLY | os.O_CREAT)
    r, w = os.pipe()
    with following(console) as follower:
        follower.add_pipe(r, Source(0, "out", prefix=b"[0] "), copy)
        os.write(w, b"one\ntwo")
        os.close(w)
        assert follower.drain(5)
        assert not follower.cut
    assert console.viewer.look() == b"[0] one\n[0] two\n"
    assert (tmp_path / "copy").read_bytes() == b"one\ntwo"


def test_a_copy_that_takes_nothing(console):
    r, w = os.pipe()
    with following(console) as follower:
        follower.add_pipe(r, Source(0, "out", prefix=b"[0] "), os.open("/dev/full", os.O_WRONLY))
        os.write(w, b"one\n")
        console.viewer.until(b"one\n")
        os.write(w, b"two\n")
        os.close(w)
        assert follower.drain(5)
        assert follower.cut
    assert console.viewer.look() == b"[0] one\n[0] two\n"
