"""`TailLog` and `tail_logfile` on their own."""

import io
import os
import subprocess
import threading
import time

import pytest

from procession.elastic.tail_log import TailLog, tail_logfile
from seams.elastic import tail_log
from support import PYTHON, until, write


def paths(tmp_path, n):
    return {rank: str(tmp_path / f"{rank}_stdout.log") for rank in range(n)}


def lines_of(dst):
    return sorted(dst.getvalue().splitlines())


def test_every_line_of_every_file(tmp_path):
    """Files that do not exist at first, written to by many threads."""
    files = paths(tmp_path, 16)
    dst = io.StringIO()
    tail = TailLog("writer", files, dst, interval_sec=0.0001).start()
    assert not tail.stopped()

    def numbers(path):
        with open(path, "w") as f:
            for i in range(500):
                print(i, file=f, flush=True)

    writers = [threading.Thread(target=numbers, args=(path,)) for path in files.values()]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    tail.stop()
    assert tail.stopped()
    for rank in files:
        mine = [line for line in dst.getvalue().splitlines() if line.startswith(f"[writer{rank}]:")]
        assert mine == [f"[writer{rank}]:{i}" for i in range(500)]
    assert len(lines_of(dst)) == 16 * 500


def test_a_line_that_arrives_in_pieces_is_one_line(tmp_path):
    """In the original it is shown as `[w0]:hel[w0]:lo`."""
    path = tmp_path / "log"
    path.touch()
    dst = io.StringIO()
    tail = TailLog("w", {0: str(path)}, dst).start()
    with path.open("a") as f:
        print("hel", end="", file=f, flush=True)
        until(lambda: dst.getvalue().endswith("hel"), "the beginning of the line")
        print("lo", file=f, flush=True)
    tail.stop()
    assert dst.getvalue() == "[w0]:hello\n"


class Slow(io.StringIO):
    def write(self, text):
        time.sleep(0.005)
        return super().write(text)


def test_stop_ends_although_somebody_goes_on_writing(tmp_path):
    """The original reads on until there is no more; and there is, if it is slower than they."""
    path = tmp_path / "log"
    code = f"""
import time
with open({str(path)!r}, "w", buffering=1) as f:
    while True:
        f.write("line\\n" * 10)
        time.sleep(0.001)
"""
    stray = subprocess.Popen([PYTHON, "-c", code])
    try:
        until(path.exists)
        tail = TailLog("w", {0: str(path)}, Slow()).start()
        thread = threading.Thread(target=tail.stop, daemon=True)
        thread.start()
        thread.join(20)
        assert not thread.is_alive()
        assert tail.stopped()
    finally:
        stray.kill()
        stray.wait()


def test_a_filter(tmp_path):
    path = tmp_path / "log"
    path.touch()
    dst = io.StringIO()
    seen = []

    def wanted(line):
        seen.append(line)
        return "2" in line

    tail = TailLog("w", {0: str(path)}, dst, log_line_filter=wanted).start()
    with path.open("a") as f:
        f.write("1")
        f.flush()
        f.writelines(["2\n", "3\n", "24\n", "5"])
    tail.stop()
    assert dst.getvalue() == "[w0]:12\n[w0]:24\n"
    assert seen == ["12\n", "3\n", "24\n", "5\n"]


def test_a_filter_that_raises(tmp_path, caplog):
    path = write(tmp_path / "log", "1\n0\n4\n")
    dst = io.StringIO()
    TailLog("w", {0: str(path)}, dst, log_line_filter=lambda line: 4 / int(line) < 2).start().stop()
    assert dst.getvalue() == "[w0]:4\n"
    assert [r.name for r in caplog.records] == ["procession.elastic.tail_log"]
    assert "ZeroDivisionError" in caplog.text


def test_a_file_that_comes_at_the_last_moment(tmp_path):
    dst = io.StringIO()
    tail = TailLog("w", {0: str(tmp_path / "log")}, dst, interval_sec=1000).start()
    write(tmp_path / "log", "late\n")
    tail.stop()
    assert dst.getvalue() == "[w0]:late\n"


@pytest.mark.parametrize("keep", [None, lambda line: line != "no\n"])
def test_tail_logfile(tmp_path, keep):
    path = tmp_path / "log"
    dst = io.StringIO()
    finished = threading.Event()
    thread = threading.Thread(target=tail_logfile, args=(">", str(path), dst, finished, 0.01, keep))
    thread.start()
    write(path, "yes\nno\n")
    until(lambda: ">yes\n" in dst.getvalue())
    finished.set()
    thread.join(20)
    assert dst.getvalue() == (">yes\n" if keep else ">yes\n>no\n")


def test_what_nobody_reads_does_not_hold_up_stop_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr(tail_log, "SLOW_READER", 0.2)
    path = write(tmp_path / "log", "x" * 99 + "\n")
    r, w = os.pipe()
    with os.fdopen(w, "w") as dst:
        write(path, ("x" * 99 + "\n") * 10_000)  # more than a pipe holds
        begin = time.monotonic()
        TailLog("w", {0: str(path)}, dst).start().stop()
        assert time.monotonic() - begin < 30
        os.close(r)
