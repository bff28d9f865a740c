"""What launchers agree on before they meet: settings, keys, and who is the host."""

import socket
import threading

import pytest

from seams.jobs import EngineError
from seams.rendezvous import (
    Reception,
    Terms,
    Trust,
    find_trust,
    is_own,
    link_key,
    make_node_process,
    open_door,
    parse_conf,
    say_who_may_join,
    take_part,
    take_secret,
    terms_of_conf,
    why_none,
)
from seams.values import SpecError, make_spec
from support import write

TERMS = Terms("node0", 29400, "J", 2, 2)


def conf(text, static=False):
    return terms_of_conf(parse_conf(text, "--rdzv-conf"), "--rdzv-conf", static=static)


def test_settings_of_c10d():
    said = "join_timeout=60, last_call_timeout=3,close_timeout=4,read_timeout=5,is_host=False"
    assert conf(said) == {
        "join": 60.0, "last_call": 3.0, "close": 4.0, "read": 5.0, "is_host": False,
    }  # fmt: skip
    assert conf("keep_alive_interval=2,keep_alive_max_attempt=4") == {"lease": 8.0}
    assert conf("keep_alive_max_attempt=2,store_type=tcp,is_host=1") == {
        "lease": 10.0, "is_host": True,
    }  # fmt: skip
    assert conf("timeout=900,munge=0", static=True) == {"join": 900.0, "munge": False}
    assert conf("cas_backoff_max_seconds=0.5") == conf("cas_backoff_max_seconds=0.0") == {}
    assert conf("") == {}
    for quote in ("'", '"'):  # of a list of words in YAML, or in a line of Python
        assert conf(f"{quote}join_timeout=60,last_call_timeout=3{quote}") == {
            "join": 60.0, "last_call": 3.0,
        }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("join_timeout", "must be NAME=VALUE"),
        ("join_timeout=soon", "join_timeout must be seconds, more than 0, not 'soon'"),
        ("'", "must be NAME=VALUE"),
        ("join_timeout=0", "must be seconds, more than 0"),
        ("keep_alive_max_attempt=0", "must be a count of 1 or more"),
        ("cas_backoff_max_seconds=-1", "cas_backoff_max_seconds must be seconds"),
        ("is_host=perhaps", "is_host must be 1 or 0"),
        ("store_type=file", "store_type must be tcp"),
        ("heartbeat=5", "keep_alive_interval and keep_alive_max_attempt"),
        ("heartbeat_timeout=5", "keep_alive_interval and keep_alive_max_attempt"),
        ("rank=1", "write --node-rank NUMBER"),
        ("join_timeuot=5", "did you mean join_timeout?"),
        ("join_timeout=1,timeout=2", "two values for one thing: join_timeout and timeout"),
        ("keep_alive_interval=0.1,keep_alive_max_attempt=5", "must be 1 second or more, not 0.5"),
        ("join_timeout=1,join_timeout=2", "has two values for join_timeout: 1 and 2"),
    ],
)
def test_settings_that_cannot_be_obeyed_are_refused(text, said):
    with pytest.raises(SpecError, match=said.replace("?", r"\?")):
        conf(text)


def test_keys_differ_by_secret_and_by_job():
    keys = {link_key(s, j) for s in (b"", b"a" * 16, b"b" * 16) for j in ("J", "K")}
    assert len(keys) == 6
    assert link_key(b"a" * 16, "J") == link_key(b"a" * 16, "J")


def test_where_a_secret_comes_from(tmp_path, monkeypatch):
    monkeypatch.delenv("PROCESSION_JOB_KEY", raising=False)
    assert take_secret() == b""
    assert "everyone who reaches node0:29400 and knows the id 'J'" in say_who_may_join(b"", TERMS)
    monkeypatch.setenv("PROCESSION_JOB_KEY", "x" * 20)
    assert take_secret() == b"x" * 20
    assert say_who_may_join(b"x" * 20, TERMS) == ""
    assert take_secret() == b""  # ranks do not get it


def test_secrets_that_are_none(monkeypatch):
    monkeypatch.setenv("PROCESSION_JOB_KEY", "short")
    with pytest.raises(SpecError, match="has 5 bytes, and could be guessed"):
        take_secret()


def test_a_secret_counts_more_than_munge(monkeypatch):
    monkeypatch.setenv("PROCESSION_JOB_KEY", "x" * 20)
    trust = find_trust(TERMS)
    assert (trust.key, trust.note, trust.learns) == (link_key(b"x" * 20, "J"), "", None)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(EngineError, match="munge is not on the PATH"):
        find_trust(TERMS.__replace__(munge=True))


def make_munge_without_daemon(place):
    for name in ("munge", "unmunge"):
        write(place / name, "#!/bin/sh\necho no daemon here >&2; exit 6\n").chmod(0o755)


def test_munge_that_does_not_work_is_told_of_at_once(tmp_path, monkeypatch):
    make_munge_without_daemon(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EngineError, match="no daemon here"):
        find_trust(TERMS.__replace__(munge=True))


def test_munge_that_fails_on_one_machine_is_told_of(tmp_path, monkeypatch):
    """That machine does not find the others, which trust each other by MUNGE."""
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "2")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_trust(TERMS).note.startswith("MUNGE does not work here (munge is not on the PATH")
    make_munge_without_daemon(tmp_path)
    note = find_trust(TERMS).note
    assert note.startswith("MUNGE does not work here (munge ended with an error: no daemon here)")
    assert "no secret is set: " in note


def reception_of(terms, missing):
    return Reception(None, None, terms, missing, None)


def test_who_has_not_come_is_named():
    roll = reception_of(TERMS, {1: "n1"})
    assert roll.absent() == (
        "nothing came from n1: is procession installed there? If so, its own lines say why it did "
        "not join [P211]"
    )


def test_who_is_the_host():
    assert is_own("localhost", 60)
    assert is_own("127.0.0.2", 60)
    assert is_own(socket.gethostname(), 60)
    assert not is_own("192.0.2.7", 60)  # of no machine: for documentation
    assert not is_own("no-such-machine.invalid", 60)
    assert open_door(TERMS.__replace__(host="192.0.2.7")) is None
    assert open_door(TERMS.__replace__(host="127.0.0.1", is_host=False)) is None


def test_a_port_that_is_taken():
    """A launcher that only seems to be the host joins; one that was told to be it, says so."""
    with socket.create_server(("", 0)) as taken:
        terms = TERMS.__replace__(host="127.0.0.1", port=taken.getsockname()[1])
        assert open_door(terms) is None
        with pytest.raises(SpecError, match="cannot listen there: Address already in use"):
            open_door(terms.__replace__(is_host=True))


def test_a_port_that_is_taken_is_passed_over_where_there_are_others():
    with socket.create_server(("", 0)) as taken, socket.create_server(("", 0)) as free:
        first, second = (each.getsockname()[1] for each in (taken, free))
        terms = TERMS.__replace__(host="127.0.0.1", port=first, further=(second,), is_host=True)
        all_of_them = rf"at 127.0.0.1:{first} \(or {second}\), and cannot .*start the step again"
        with pytest.raises(SpecError, match=all_of_them):
            open_door(terms)
        free.close()
        door = open_door(terms)
    with door:
        assert door.getsockname()[1] == second


def test_who_cannot_be_taken():
    objection = reception_of(TERMS, {}).object_to
    greeting = {"slot": -1, "host": "h1", "nproc": 2, "least": 2, "most": 2, "order": ["h1", 5]}
    assert objection(greeting) == ""
    assert objection({**greeting, "nproc": 3}) == ""
    assert "h1 cannot have 0 ranks" in objection({**greeting, "nproc": 0})
    assert "--nnodes 1:2, and node0:29400 with 2" in objection({**greeting, "least": 1})
    del greeting["order"]
    assert "different --rdzv-backend" in objection(greeting)


def test_who_was_sent_away_says_so_also_when_that_job_has_ended_meanwhile():
    sent = "its connection ended"
    assert why_none("", "refused", TERMS) == "refused"
    assert why_none(sent, sent, TERMS).startswith(f"what listens there sent us away ({sent})")
    assert why_none(sent, "refused", TERMS).endswith("another secret? Later: refused")
    with socket.create_server(("127.0.0.1", 0)) as door:

        def send_away():
            door.accept()[0].close()
            door.close()

        thread = threading.Thread(target=send_away)
        thread.start()
        terms = TERMS.__replace__(host="127.0.0.1", port=door.getsockname()[1], join=1.5)
        spec = make_spec(["true"], nproc=1)
        node = make_node_process(spec, terms, Trust(b"k" * 32), hosts=False, say=lambda _: None)
        verdict = take_part(node, terms, "true")
        thread.join()
    assert (verdict.code, verdict.found) == (1, False)
    assert "sent us away (its connection " in verdict.said


def test_one_who_listens_and_says_nothing_is_not_waited_for_longer_than_agreed():
    with socket.create_server(("127.0.0.1", 0)) as door:
        port = door.getsockname()[1]
        terms = Terms("127.0.0.1", port, "J", 2, 2, join=0.5, read=600.0)
        spec = make_spec(["true"], nproc=1)
        trust = Trust(link_key(b"x" * 20, "J"))
        node = make_node_process(spec, terms, trust, hosts=False, say=print)
        verdict = take_part(node, terms, "true")
    assert verdict.code == 1
    assert "within 0.5 s: no answer" in verdict.said
