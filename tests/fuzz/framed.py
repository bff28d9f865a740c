"""What comes over sockets and pipes: inputs, and what must hold."""

import contextlib
import json
import socket

from hypothesis import strategies as st
from inputs import CUTS, JSON, NUMBERS, TEXTS, cut, damaged, fields

from engines.packed import pack
from outcomes import Reader
from seams.control import Lines
from seams.control import decode as decode_control
from seams.jobs import EngineError, Heir, Will, read_heir, read_will, take_invitation
from seams.prepare import OF_COMMAND, OF_SCRIPT
from seams.wire import Wire, WireError


def check_control(given):
    data, cuts = given
    lines = Lines(1 << 16)
    for piece in cut(data, cuts):
        with contextlib.suppress(ValueError):
            for line in lines.feed(piece):
                assert isinstance(decode_control(line), dict)


REQUESTS = fields("procession", "ask", "lines", "follow", "signal", "grace", "rank", "native")
ASKED = st.sampled_from(["look", "log", "stop", "kill", "signal", "stacks"])
CONTROL = st.lists(
    damaged(
        st.builds(lambda r, a, v: json.dumps({**r, "ask": a, "procession": v}).encode(),
                  REQUESTS, ASKED, st.sampled_from([1, 1, 1, 2, True, "1"]))
    ),
    max_size=4,
).map(lambda each: b"\n".join([*each, b""]))  # fmt: skip


def check_link(given):
    """Nothing but what the peer said is ever given out, and in its order."""
    messages, where, change, cuts = given
    driver = Wire(b"k" * 32, "driver", encrypts=False)
    node = Wire(b"k" * 32, "agent", encrypts=False)
    node.feed(driver.opening)
    data = bytearray(node.opening + b"".join(pack(node, k, {"n": f}, b) for k, f, b in messages))
    if change:
        data[where % len(data)] ^= change
    heard = []
    with contextlib.suppress(WireError):
        for piece in cut(bytes(data), cuts):
            heard += driver.feed(piece)
    said = [(k, json.loads(json.dumps({"n": f})), b) for k, f, b in messages]
    same = [(m.kind, m.fields, bytes(m.blob)) for m in heard]
    assert repr(same) == repr(said[: len(same)])
    if not change:
        assert len(same) == len(said)


LINK = st.tuples(
    st.lists(st.tuples(st.text(max_size=5), JSON, st.binary(max_size=50)), min_size=1, max_size=4),
    st.integers(0, 1 << 12),
    st.integers(0, 255),
    CUTS,
)


def check_rendezvous(given):
    """What a peer says of itself, and the host of the job."""
    heir, will = given
    malformed = (ValueError, TypeError, KeyError)
    with contextlib.suppress(malformed):
        if (found := read_heir(heir)) is not None:
            assert isinstance(found, Heir)
            assert 0 <= found.port < 65536
    with contextlib.suppress(malformed):
        if (found := read_will(will)) is not None:
            assert isinstance(found, Will)


HEIRS = st.tuples(st.text(max_size=4), st.text(max_size=4), JSON, JSON, JSON, JSON).map(list)
WILLS = st.fixed_dictionaries({"world": st.one_of(JSON, st.lists(HEIRS, max_size=2)),
                               "attempt": JSON, "regrouped": JSON})  # fmt: skip


def check_invitation(given):
    text, key, slot = given
    env = {"PROCESSION_DRIVER_ADDRESS": text, "PROCESSION_AGENT": text}
    env |= {"PROCESSION_AGENT_KEY": key, "PROCESSION_AGENT_SLOT": slot}
    with contextlib.suppress(EngineError):
        take_invitation(env)


INVITED = st.fixed_dictionaries({"at": JSON})


def check_results(given):
    """The outcome channel of a script: whatever a rank writes there."""
    data, command = given
    ours, theirs = socket.socketpair()
    reader = Reader(ours, OF_COMMAND if command else OF_SCRIPT)
    try:
        theirs.sendall(data)
        theirs.close()
        reader.read()
        assert reader.ended
        if reader.report is not None:
            assert not reader.report.holds_value
            assert isinstance(reader.report.description, dict)
    finally:
        reader.close()


HEADS = st.tuples(st.sampled_from(b"DVFEAX"), st.integers(0, 300), st.integers(0, 1 << 62), JSON)


def frame(head):
    kind, length, at, body = head
    text = json.dumps(body).encode()
    exact = len(text) if length > 60 else length
    return bytes([kind]) + exact.to_bytes(8, "little") + at.to_bytes(8, "little") + text


FRAMES = damaged(st.lists(HEADS, max_size=3).map(lambda heads: b"".join(map(frame, heads))))


FRAMED = {
    "control": (st.tuples(st.one_of(CONTROL, st.binary(max_size=200)), CUTS), check_control),
    "link": (LINK, check_link),
    "rendezvous": (
        st.tuples(st.one_of(JSON, HEIRS, HEIRS), st.one_of(JSON, WILLS, WILLS)),
        check_rendezvous,
    ),
    "invitation": (
        st.tuples(
            st.one_of(TEXTS, INVITED.map(json.dumps)),
            st.sampled_from(["00" * 32, "x", ""]),
            NUMBERS,
        ),
        check_invitation,
    ),
    "results": (st.tuples(st.one_of(FRAMES, st.binary(max_size=80)), st.booleans()), check_results),
}
