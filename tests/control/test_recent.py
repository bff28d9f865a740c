"""What a console has shown last, read by somebody slower."""

from seams.output import Recent


def texts(blocks):
    return b"".join(data for data, _ in blocks)


def test_the_last_lines():
    recent = Recent()
    recent.add(b"one\ntwo\n", "out")
    recent.add(b"three\n", "err")
    assert recent.last(2)[1] == [(b"two\n", "out"), (b"three\n", "err")]
    assert texts(recent.last(9)[1]) == b"one\ntwo\nthree\n"
    assert recent.last(0)[1] == []


def test_a_reader_goes_on_where_it_was():
    recent = Recent()
    recent.add(b"old\n", "out")
    place, _ = recent.last(0)
    assert recent.read(place) == (place, 0, [])
    recent.add(b"new\n", "out")
    place, missed, blocks = recent.read(place)
    assert (missed, texts(blocks)) == (0, b"new\n")
    assert recent.read(place)[2] == []


def test_a_reader_that_is_too_slow_is_told_what_it_missed():
    recent = Recent(kept=100)
    place, _ = recent.last(0)
    for i in range(100):
        recent.add(b"line %04d\n" % i, "out")
    place, missed, blocks = recent.read(place)
    shown = texts(blocks).count(b"\n")
    assert shown <= 11
    assert missed + shown == 100
    assert texts(blocks).endswith(b"line 0099\n")
    for i in range(100):
        recent.add(b"more %04d\n" % i, "out")
    _, missed, blocks = recent.read(place)
    assert missed + texts(blocks).count(b"\n") == 100


def test_a_block_that_is_larger_than_all_is_kept_whole():
    recent = Recent(kept=10)
    place, _ = recent.last(0)
    recent.add(b"x" * 100, "out")
    assert texts(recent.read(place)[2]) == b"x" * 100


def test_it_wakes_once_for_each_read():
    recent = Recent()
    woken = []
    recent.wake_by(lambda: woken.append(1))
    recent.add(b"a", "out")
    assert not woken  # nobody has read yet
    place = recent.read((0, 0))[0]
    recent.add(b"b", "out")
    recent.add(b"c", "out")
    assert len(woken) == 1
    recent.read(place)
    recent.add(b"d", "out")
    assert len(woken) == 2
    recent.wake_by(None)
    recent.read(place)
    recent.add(b"e", "out")
    assert len(woken) == 2


def test_a_block_is_not_read_beyond_what_is_asked():
    recent = Recent()
    for _ in range(10):
        recent.add(b"x" * 10, "out")
    place, _, blocks = recent.read((0, 0), most=25)
    assert len(texts(blocks)) == 30
    assert len(texts(recent.read(place)[2])) == 70
