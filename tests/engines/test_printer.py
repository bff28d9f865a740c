"""What agents show, on pipes in place of the driver's console."""

import contextlib
import os
import sys

from seams.jobs import AT_ONCE, Printer


@contextlib.contextmanager
def consoles(monkeypatch):
    """Put pipes in place of both streams; gives their other ends."""
    found = []
    for name in ("stdout", "stderr"):
        read, write = os.pipe()
        stream = os.fdopen(write, "w")
        monkeypatch.setattr(sys, name, stream)
        found.append((read, stream))
    yield [read for read, _ in found]
    monkeypatch.undo()
    for read, stream in found:
        os.close(read)
        stream.close()


def test_small_blocks_of_many_are_shown_in_order_and_all_are_told(monkeypatch):
    shown = []
    blocks = [(2 if k % 100 == 7 else 1, b"line %d\n" % k) for k in range(1000)]
    with consoles(monkeypatch) as ends:
        printer = Printer(shown.extend)
        for k, (stream, data) in enumerate(blocks):
            printer.show(stream, data, k)
        printer.say(b"ours\n")
        assert printer.close(10.0)
        seen = [os.read(end, AT_ONCE) for end in ends]
    assert sorted(shown) == [(k, len(data)) for k, (_, data) in enumerate(blocks)]
    out, err = (b"".join(data for to, data in blocks if to == stream) for stream in (1, 2))
    assert seen == [out, err + b"ours\n"]
