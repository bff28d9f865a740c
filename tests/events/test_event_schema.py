"""Every event of real runs fits docs/events.schema.json, and tells enough to rebuild the run."""

import json
import re
import signal
from pathlib import Path

import jsonschema
import pytest

import eventkinds
import procession
from eventkinds import COMMON, FACTS, KINDS, OF_RANK, schema
from procession import Logs, Restart
from seams.rules import Phase, WorkerEvent
from support import QUICK, shell

DOCS = Path(__file__).parents[2] / "docs"
SOURCE = Path(procession.__file__).parent
VALIDATOR = jsonschema.Draft202012Validator(
    json.loads((DOCS / "events.schema.json").read_text(encoding="utf-8"))
)
PATIENT = procession.Stop(grace=20, linger=20)  # who told of its end may exit by itself
# What only the machine of states is told, and nobody else.
INSIDE = {"start_deadline", "reap_deadline"}


def test_the_file_is_what_the_table_says():
    (written,) = eventkinds.files().items()
    assert written[0].read_text(encoding="utf-8") == written[1]
    jsonschema.Draft202012Validator.check_schema(schema())


def test_every_kind_of_event_is_in_the_table():
    kinds = {p.name.lower() for p in Phase} | {e.name.lower() for e in WorkerEvent} - INSIDE
    for file in SOURCE.rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        kinds |= set(re.findall(r"\b_?note(?:_rank)?\(\s*\"([a-z_]+)\"", text))
    assert kinds | {"gathering"} == KINDS.keys()


def test_every_fact_is_told_by_an_event():
    used = {fact for kind in KINDS.values() for fact in (*kind.always, *kind.sometimes)}
    assert used == FACTS.keys()
    assert not used & {*COMMON, *OF_RANK}


def test_the_page_has_every_kind_and_fact():
    page = (DOCS / "reference" / "events.md").read_text(encoding="utf-8")
    assert [n for n in (*KINDS, *FACTS) if f"`{n}`" not in page] == []


@pytest.mark.parametrize(
    "event",
    [
        {"kind": "hiccup", "attempt": 0, "at": 1, "time": 1.0},
        {"kind": "running", "attempt": 0, "at": 1, "time": 1.0, "mood": "good"},
        {"kind": "running", "attempt": 0, "at": 1, "time": 1.0, "rank": 0},
        {"kind": "stop_sent", "rank": 0, "attempt": 0, "at": 1, "time": 1.0},
        {"kind": "ready", "rank": -1, "attempt": 0, "at": 1, "time": 1.0},
    ],
)
def test_what_does_not_fit(event):
    with pytest.raises(jsonschema.ValidationError):
        VALIDATOR.validate(event)


def events_of(tmp_path, program, **options):
    """Run a group to its end, and check each of its events; gives them as the file has them."""
    heard = []
    end = options.pop("end", lambda _: None)
    group = procession.start(
        program, logs=Logs(dir=tmp_path), on_event=heard.append, **{"stop": PATIENT, **options}
    )
    end(group)
    try:
        group.wait()
    except procession.GroupFailed:
        pass
    lines = Path(group.run_dir, "events.jsonl").read_text().splitlines()
    events = [json.loads(line) for line in lines]
    assert [json.loads(json.dumps(event.as_dict())) for event in heard] == events
    for event in events:
        VALIDATOR.validate(event)
    return events


def one(events, kind, rank=None):
    (found,) = [e for e in events if e["kind"] == kind and e.get("rank") == rank]
    return found


def work(rank_of_fault=None):
    import os

    if os.environ["RANK"] == rank_of_fault:
        raise ValueError("no such batch")
    return os.getpid()


def test_a_function_that_succeeds(tmp_path):
    events = events_of(tmp_path, work, nproc=2)
    began = one(events, "starting")
    assert (began["name"], began["program"], began["words"]) == ("work", "function", ["work"])
    assert (began["nproc"], began["node"], began["nodes"], began["restarts"]) == (2, 0, 1, 0)
    for rank in range(2):
        gone = one(events, "exited", rank)
        assert (gone["ended"], gone["outcome"], gone["exit_code"]) == ("finished", "returned", 0)
        assert gone["cpu_seconds"] >= 0
        assert gone["peak_memory"] > 1 << 20
        assert one(events, "reported", rank)["ok"] is True
        assert one(events, "spawned", rank)["pid"] == gone["pid"]
    assert events[-1]["kind"] == "succeeded"


def test_a_function_that_fails(tmp_path):
    events = events_of(tmp_path, work, args=("1",), nproc=2)
    gone = one(events, "exited", 1)
    assert (gone["ended"], gone["outcome"], gone["exit_code"]) == ("failed", "raised", 1)
    assert (gone["type"], gone["message"]) == ("ValueError", "no such batch")
    end = events[-1]
    assert (end["kind"], end["failed_rank"], end["outcome"]) == ("failed", 1, "raised")
    assert end["message"] == "raised ValueError: no such batch"
    assert end["type"] == "ValueError"
    assert 'raise ValueError("no such batch")' in end["traceback"] == gone["traceback"]


def test_a_command_that_is_killed_and_takes_the_others_with_it(tmp_path):
    program = shell("[ $RANK = 1 ] && kill -SEGV $$; sleep 60")
    events = events_of(tmp_path, program, nproc=2)
    gone = one(events, "exited", 1)
    assert (gone["ended"], gone["outcome"], gone["signal"]) == ("failed", "signalled", 11)
    assert "exit_code" not in gone
    assert (events[-1]["failed_rank"], events[-1]["signal"]) == (1, signal.SIGSEGV)
    assert one(events, "stop_sent", 0)["signal"] == signal.SIGTERM
    assert one(events, "exited", 0)["ended"] == "stopped"


def test_a_restart(tmp_path):
    program = shell("exit $((5 * (1 - TORCHELASTIC_RESTART_COUNT)))")
    events = events_of(tmp_path, program, nproc=1, restart=Restart(max=1))
    starts = [e for e in events if e["kind"] == "starting"]
    assert [(e["attempt"], e["restarts"]) for e in starts] == [(0, 1), (1, 1)]
    codes = [e["exit_code"] for e in events if e["kind"] == "exited"]
    assert codes == [5, 0]
    assert events[-1]["kind"] == "succeeded"


def test_a_rank_that_ignores_the_stop(tmp_path):
    def end(group):
        while not Path(tmp_path / "there").exists():
            pass
        group.stop()

    program = shell(f"trap '' TERM; touch {tmp_path}/there; while :; do sleep 0.05; done")
    events = events_of(tmp_path, program, end=end, stop=QUICK)
    assert one(events, "kill_sent", 0)["signal"] == signal.SIGKILL
    assert events[-1]["kind"] == "stopped"


def test_a_program_that_cannot_be_started(tmp_path):
    broken = tmp_path / "broken"
    broken.write_text("#!/no/such/interpreter\n")
    broken.chmod(0o700)
    heard = []
    with pytest.raises(procession.StartFailed):
        procession.start([str(broken)], nproc=2, on_event=heard.append)
    events = [event.as_dict() for event in heard]
    for event in events:
        VALIDATOR.validate(event)
    assert "No such file" in one(events, "spawn_failed", 0)["message"]
    assert (events[-1]["kind"], events[-1]["outcome"]) == ("failed", "not_started")
