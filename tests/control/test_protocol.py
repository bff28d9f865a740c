"""Lines on a run's socket: what is a request, and what is none."""

import json

import pytest

from seams.control import MOST_LINE, REQUESTS, Lines, decode, encode, read_request


def request(**fields):
    return json.dumps({"procession": 1, **fields}).encode()


@pytest.mark.parametrize("name", [n for n in REQUESTS if n != "signal"])
def test_a_request_needs_its_name_only(name):
    assert read_request(request(ask=name)) == (name, {})


def test_what_is_given_with_it():
    assert read_request(request(ask="stop", signal=2, grace=1.5))[1] == {"signal": 2, "grace": 1.5}
    assert read_request(request(ask="log", lines=3, follow=True))[1]["follow"] is True


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"", "not a line of JSON"),
        (b"\xff\xfe", "not a line of JSON"),
        (b"[" * 100_000, "not a line of JSON"),
        (b"[1]", "not a JSON object"),
        (b'{"ask": "look"}', "version None"),
        (b'{"procession": 2, "ask": "look"}', "version 2"),
        (request(ask="dance"), "no request 'dance'"),
        (request(ask=["look"]), "no request"),
        (request(ask="look", more=1), "there is no 'more'"),
        (request(ask="log", lines=-1), "lines must be a number"),
        (request(ask="log", lines=True), "lines must be a number"),
        (request(ask="log", follow=1), "follow must be true or false"),
        (request(ask="stop", grace="soon"), "grace must be seconds"),
        (request(ask="signal", rank=0), "signal is missing"),
        (request(ask="signal", signal=1), "rank is missing"),
    ],
)
def test_what_is_no_request(line, said):
    with pytest.raises(ValueError, match=said):
        read_request(line)


def test_a_line_comes_back():
    text = b"\xff caf\xc3\xa9 \x1b[0m".decode(errors="surrogateescape")
    line = encode({"event": "log", "text": text})
    assert line.count(b"\n") == 1
    assert decode(line)["text"].encode(errors="surrogateescape") == b"\xff caf\xc3\xa9 \x1b[0m"


def test_lines_are_put_together():
    lines = Lines(MOST_LINE)
    assert lines.feed(b"one\ntw") == [b"one"]
    assert lines.feed(b"") == []
    assert lines.feed(b"o") == []
    assert lines.feed(b"\n\nthree\n") == [b"two", b"", b"three"]


@pytest.mark.parametrize("blocks", [[b"x" * 11], [b"x" * 6, b"x" * 6], [b"x" * 11 + b"\n"]])
def test_a_line_without_an_end_is_refused(blocks):
    lines = Lines(10)
    *before, last = blocks
    for block in before:
        assert lines.feed(block) == []
    with pytest.raises(ValueError, match="more than 10 bytes"):
        lines.feed(last)
