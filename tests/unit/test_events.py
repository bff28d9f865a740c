import json

from seams.values import Event


def test_rank_0_and_all_that_is_known():
    event = Event("exited", 0, 2, 5, 1.5, pid=77, detail="code 3")
    known = {"kind": "exited", "rank": 0, "attempt": 2, "at": 5, "time": 1.5, "pid": 77}
    assert list(event.as_dict().items()) == [*known.items(), ("detail", "code 3")]
    assert json.loads(json.dumps(event.as_dict())) == event.as_dict()
