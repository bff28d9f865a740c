"""Values are what frozen dataclasses of the same fields would be."""

import copy
import dataclasses
import inspect
import pickle
import pydoc

import pytest

import procession
from procession import Logs, Restart, Std, Stop
from seams.values import Value, is_count


class Point(Value):
    x: int
    y: int = 2


def test_equal_by_fields():
    assert Point(1) == Point(x=1, y=2) != Point(1, 3)
    assert len({Point(1), Point(1, 2)}) == 1
    assert Point(1) != (1, 2)
    assert repr(Point(1)) == "Point(x=1, y=2)"


@pytest.mark.parametrize("words", [(), (1, 2, 3)])
def test_wrong_values(words):
    with pytest.raises(TypeError, match="Point"):
        Point(*words)


def test_frozen():
    point = Point(1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        point.x = 2
    with pytest.raises(AttributeError):
        del point.x
    assert point == Point(1)


@pytest.mark.parametrize("value", [Point(1), Logs(tee=Std.ALL), Stop(grace=1.0), Restart(2)])
def test_copies(value):
    assert pickle.loads(pickle.dumps(value)) == copy.deepcopy(value) == value


def test_what_dataclasses_asks_for():
    assert dataclasses.is_dataclass(Stop)
    assert [f.name for f in dataclasses.fields(Point)] == ["x", "y"]
    assert dataclasses.replace(Point(1), y=5) == Point(1, 5) == Point(1).__replace__(y=5)
    assert dataclasses.asdict(Point(1)) == {"x": 1, "y": 2}
    assert list(inspect.signature(Point).parameters) == ["x", "y"]
    assert Point.__match_args__ == ("x", "y")


@pytest.mark.parametrize("text", ["0", "007", "9" * 9])
def test_a_count(text):
    assert is_count(text)
    assert is_count(text, len(text))
    assert not is_count(text, len(text) - 1)


@pytest.mark.parametrize("text", ["", "-1", "+1", "1.0", " 1", "1_0", "\u0663", "\u00b2", "9" * 10])
def test_no_count(text):
    """`int` takes some of these, as it takes digits of other scripts."""
    assert not is_count(text)


def test_help_shows_it():
    assert "class Stop" in pydoc.render_doc(procession.Stop, renderer=pydoc.plaintext)
    assert "GroupFailed" in pydoc.render_doc(procession, renderer=pydoc.plaintext)
