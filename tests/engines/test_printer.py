"""What agents show, on pipes in place of the driver's console."""

import contextlib
import os
import sys
import threading

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


def test_a_slow_reader_gets_all_and_one_that_stands_is_given_up(monkeypatch):
    block, blocks, patience = b"x" * AT_ONCE, 6, 0.8
    with consoles(monkeypatch) as (out, _):
        printer = Printer(lambda shown: None)
        for _ in range(blocks):
            printer.show(1, block)

        def read_slowly() -> None:
            for _ in range(blocks):
                threading.Event().wait(patience / 3)  # together longer than the patience
                left = len(block)
                while left:
                    left -= len(os.read(out, left))

        reader = threading.Thread(target=read_slowly)
        reader.start()
        whole = printer.close(patience)
        reader.join()
        assert whole

        stands = Printer(lambda shown: None)
        for _ in range(blocks):
            stands.show(1, block)
        assert not stands.close(patience)
