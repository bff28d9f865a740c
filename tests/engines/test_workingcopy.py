"""Paths of a driver whose directory an engine has copied to another place."""

import os

import pytest

from seams.jobs import Share, divide, moved, place
from seams.values import Command, make_spec


@pytest.mark.parametrize(
    ("path", "here"),
    [("/a", "/c"), ("/a/b/d", "/c/b/d"), ("/ab", "/ab"), ("/", "/"), ("/x", "/x")],
)
def test_a_place_in_the_copy(path, here):
    assert place(path, "/a", "/c") == here


def test_a_command_moves_only_if_it_is_below_the_original(tmp_path):
    (tmp_path / "part").mkdir()
    original = str(tmp_path)
    below = make_spec(["true"], nproc=1, cwd=tmp_path / "part")
    assert moved(below, original, "/c").cwd == "/c/part"
    assert moved(below, original, "/c").program == Command(("true",))
    elsewhere = make_spec(["true"], nproc=1, cwd="/")
    assert moved(elsewhere, original, "/c").cwd == "/"


def test_a_function_looks_for_modules_in_the_copy_first(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path / "lib"))
    share = Share(make_spec(os.getcwd, nproc=1, cwd=tmp_path))
    spec = moved(divide(share, 2).spec, str(tmp_path), "/c", "/added:/c")
    path = spec.program.call.description["sys_path"]
    assert path[:3] == ["/c", "/added", "/c/lib"]
    assert str(tmp_path / "lib") not in path
