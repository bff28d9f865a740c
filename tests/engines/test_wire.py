"""What goes between a driver and its node processes: only who has the key is believed."""

import pytest

from engines.packed import pack
from seams.wire import MAGIC, PART, SMALL, Message, Parcel, Wire, WireError, wire

KEY = b"k" * 32


def pair(key=KEY, other=KEY):
    driver, node = (
        Wire(key, "driver", encrypts=False),
        Wire(other, "agent", encrypts=False),
    )
    assert driver.feed(node.opening) == []
    assert node.feed(driver.opening) == []
    return driver, node


def test_messages_both_ways():
    driver, node = pair()
    assert driver.ready
    assert node.ready
    said = pack(node, "hello", {"slot": 3, "host": "n3"})
    assert driver.feed(said) == [Message("hello", {"slot": 3, "host": "n3"})]
    assert driver.trusted
    assert not node.trusted
    both = pack(driver, "work", {}, b"\0" * 100_000) + pack(driver, "beat", {"at": 1})
    assert node.feed(node.opening[:0]) == []
    node.trusted = True  # a first message that is that long is refused below
    assert node.feed(both) == [Message("work", {}, b"\0" * 100_000), Message("beat", {"at": 1})]


def test_a_large_message_goes_in_parts_and_others_between_them():
    driver, node = pair()
    node.feed(pack(driver, "welcome", {}))
    blob = bytes(range(256)) * (5 * PART // 512)
    parcel = Parcel("launch", {"node": 1}, blob)
    found = []
    frames = 0
    while not parcel.done:
        parts = driver.frame(parcel)
        assert all(part.obj is blob for part in parts if len(part) > 1000)  # it is not copied
        frames += 1
        assert sum(map(len, parts)) <= PART + 100
        found += node.feed(b"".join(parts))
        found += node.feed(pack(driver, "beat", {"at": frames}))
    assert frames == 4
    whole = Message("launch", {"node": 1}, blob)
    assert found == [
        *(Message("beat", {"at": n}) for n in (1, 2, 3)),
        whole,
        Message("beat", {"at": 4}),
    ]


def test_a_message_that_does_not_end(monkeypatch):
    driver, node = pair()
    node.feed(pack(driver, "welcome", {}))
    parcel = Parcel("value", {}, b"x" * (3 * PART))
    monkeypatch.setattr(wire, "LARGEST", PART)
    node.feed(b"".join(driver.frame(parcel)))
    with pytest.raises(WireError, match="too long"):
        node.feed(b"".join(driver.frame(parcel)))


def replayed():
    driver, node = pair()
    first = pack(node, "a", {})
    driver.feed(first)
    driver.feed(first)


def turned_round():
    driver, _ = pair()
    driver.feed(pack(driver, "a", {}))


def of_another_key():
    driver, node = pair(other=b"x" * 32)
    driver.feed(pack(node, "hello", {}))


def too_long_for_a_stranger():
    pair()[0].feed((SMALL + 1).to_bytes(4, "big") + b"\0" * 40)


def no_message():
    driver, node = pair()
    body = b"\0\0\0\0\x02[]"
    mac = wire._mac(node._out, 0, body)
    driver.feed(len(body).to_bytes(4, "big") + mac + body)


@pytest.mark.parametrize(
    ("heard", "said"),
    [
        (replayed, "does not have the key"),
        (turned_round, "does not have the key"),
        (of_another_key, "does not have the key"),
        (too_long_for_a_stranger, "too long"),
        (no_message, "cannot be read"),
        (lambda: Wire(KEY, "driver").feed(b"GET / HTTP/1.1\r\n"), "protocol"),
        (lambda: Wire(KEY, "driver").feed(b"P\0"), "protocol"),
        (lambda: Wire(KEY, "driver").feed(MAGIC[:-1] + b"\x01"), "protocol"),
    ],
)
def test_what_is_refused(heard, said):
    with pytest.raises(WireError, match=said):
        heard()
