import copy
import dataclasses
import json
import pickle

from seams.values import Event, Facts


def test_an_event_is_written_without_what_says_nothing():
    event = Event("running", None, 0, 123, 1700000000.1234567)
    assert event.as_dict() == {
        "kind": "running",
        "attempt": 0,
        "at": 123,
        "time": 1700000000.123457,
    }


def test_rank_0_and_all_that_is_known():
    event = Event("exited", 0, 2, 5, 1.5, pid=77, detail="exit code 3")
    assert list(event.as_dict().items()) == [
        ("kind", "exited"),
        ("rank", 0),
        ("attempt", 2),
        ("at", 5),
        ("time", 1.5),
        ("pid", 77),
        ("detail", "exit code 3"),
    ]
    assert json.loads(json.dumps(event.as_dict())) == event.as_dict()


def test_facts_stand_beside_the_fields():
    event = Event("exited", 0, 0, 5, 1.5, facts=Facts(ended="failed", words=["a"]))
    assert event.as_dict()["ended"] == "failed"
    assert "facts" not in event.as_dict()


def test_an_event_is_a_value():
    event = Event("exited", 0, 0, 5, 1.5, facts=Facts(words=["a"]))
    same = Event("exited", 0, 0, 5, 1.5, facts=Facts(words=["a"]))
    assert event == same != dataclasses.replace(event, facts=Facts(words=["b"]))
    assert len({event, same}) == 1
    assert pickle.loads(pickle.dumps(event)) == copy.deepcopy(event) == event
    assert dataclasses.asdict(event)["facts"] == {"words": ["a"]}
