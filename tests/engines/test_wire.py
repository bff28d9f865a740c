"""What goes between a driver and its agents: only who has the key is believed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seams.wire import LARGEST, MAGIC, PART, SMALL, Message, Parcel, Wire, WireError, wire

KEY = b"k" * 32


def pair(key=KEY, other=KEY):
    driver, agent = (
        Wire(key, "driver", encrypts=False),
        Wire(other, "agent", encrypts=False),
    )
    assert driver.feed(agent.opening) == []
    assert agent.feed(driver.opening) == []
    return driver, agent


def test_messages_both_ways():
    driver, agent = pair()
    assert driver.ready
    assert agent.ready
    said = agent.pack("hello", {"slot": 3, "host": "n3"})
    assert driver.feed(said) == [Message("hello", {"slot": 3, "host": "n3"})]
    assert driver.trusted
    assert not agent.trusted
    both = driver.pack("work", {}, b"\0" * 100_000) + driver.pack("beat", {"at": 1})
    assert agent.feed(agent.opening[:0]) == []
    agent.trusted = True  # a first message that is that long is refused below
    assert agent.feed(both) == [Message("work", {}, b"\0" * 100_000), Message("beat", {"at": 1})]


def test_a_large_message_goes_in_parts_and_others_between_them():
    driver, agent = pair()
    agent.feed(driver.pack("welcome", {}))
    blob = bytes(range(256)) * (5 * PART // 512)
    parcel = Parcel("launch", {"node": 1}, blob)
    found = []
    frames = 0
    while not parcel.done:
        parts = driver.frame(parcel)
        assert all(part.obj is blob for part in parts if len(part) > 1000)  # it is not copied
        frames += 1
        assert sum(map(len, parts)) <= PART + 100
        found += agent.feed(b"".join(parts))
        found += agent.feed(driver.pack("beat", {"at": frames}))
    assert frames == 3
    whole = Message("launch", {"node": 1}, blob)
    assert found == [
        *(Message("beat", {"at": n}) for n in (1, 2)),
        whole,
        Message("beat", {"at": 3}),
    ]


def test_a_message_that_does_not_end(monkeypatch):
    driver, agent = pair()
    agent.feed(driver.pack("welcome", {}))
    parcel = Parcel("value", {}, b"x" * (3 * PART))
    monkeypatch.setattr(wire, "LARGEST", PART)
    agent.feed(b"".join(driver.frame(parcel)))
    with pytest.raises(WireError, match="too long"):
        agent.feed(b"".join(driver.frame(parcel)))


@given(st.lists(st.tuples(st.text(max_size=9), st.binary(max_size=99))), st.data())
def test_however_it_is_cut(sent, data):
    driver, agent = pair()
    stream = b"".join(agent.pack("m", {"t": text}, blob) for text, blob in sent)
    found = []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        found += driver.feed(stream[:size])
        stream = stream[size:]
    assert found == [Message("m", {"t": text}, blob) for text, blob in sent]


def test_another_key():
    driver, agent = pair(other=b"x" * 32)
    with pytest.raises(WireError, match="does not have the key"):
        driver.feed(agent.pack("hello", {}))
    assert not driver.trusted


@given(st.integers(0, 200), st.integers(1, 255))
def test_one_byte_that_is_changed(place, change):
    driver, agent = pair()
    stream = bytearray(agent.pack("hello", {"slot": 1}))
    stream[place % len(stream)] ^= change
    try:
        assert driver.feed(bytes(stream)) == []  # a length that has grown: it waits
    except WireError:
        pass
    assert not driver.trusted


def test_replayed_left_out_and_turned_round():
    driver, agent = pair()
    first, second = agent.pack("a", {}), agent.pack("b", {})
    driver.feed(first)
    with pytest.raises(WireError):
        driver.feed(first)
    driver, agent = pair()
    first, second = agent.pack("a", {}), agent.pack("b", {})
    with pytest.raises(WireError):
        driver.feed(second)
    driver, agent = pair()
    with pytest.raises(WireError):
        driver.feed(driver.pack("a", {}))  # its own words


def test_of_another_connection():
    _, agent = pair()
    driver, _ = pair()
    with pytest.raises(WireError):
        driver.feed(agent.pack("hello", {}))


@pytest.mark.parametrize("junk", [b"GET / HTTP/1.1\r\n", b"P\0", MAGIC[:-1] + b"\x01"])
def test_other_protocols_are_refused_at_once(junk):
    with pytest.raises(WireError, match="protocol"):
        Wire(KEY, "driver").feed(junk)


def test_a_stranger_cannot_make_us_wait_for_much():
    driver, _ = pair()
    with pytest.raises(WireError, match="too long"):
        driver.feed((SMALL + 1).to_bytes(4, "big") + b"\0" * 40)


def test_what_is_too_large_to_send(monkeypatch):
    monkeypatch.setattr(wire, "LARGEST", 100)
    driver, _ = pair()
    with pytest.raises(ValueError, match="100 is the most"):
        driver.pack("value", {}, b"x" * 200)
    assert LARGEST > SMALL


def test_a_message_of_our_key_that_is_none():
    driver, agent = pair()
    body = b"\0\0\0\0\x02[]"
    from seams.wire import wire

    mac = wire._mac(agent._out, 0, body)
    with pytest.raises(WireError, match="cannot be read"):
        driver.feed(len(body).to_bytes(4, "big") + mac + body)
