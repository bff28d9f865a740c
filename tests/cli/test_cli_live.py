"""`procession run --live` on a terminal: what is on the screen, and what is left of it."""

import os
import re
import signal

import pytest
from emulated import Screen

from support import until, write

pytestmark = pytest.mark.timeout(120)

WORK = """
    import os, pathlib, sys, time
    import procession
    rank, go = int(os.environ["RANK"]), pathlib.Path(sys.argv[1])
    lines = int(sys.argv[2])
    go.with_name(f"pid{rank}").write_text(f"{os.getpid()}\\n")
    for step in range(1, lines + 1):
        procession.beat(step, 2 * lines, loss=0.5)
        print(f"line {step} of {rank}", flush=True)
    while not go.exists():
        time.sleep(0.01)
    for step in range(lines + 1, 2 * lines + 1):
        procession.beat(step, 2 * lines, loss=0.25)
        print(f"line {step} of {rank}", flush=True)
    """


@pytest.fixture(autouse=True)
def plain_terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("PYTHONIOENCODING", "utf-8")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)


@pytest.fixture
def work(tmp_path):
    return write(tmp_path / "work.py", WORK)


def log_of(rank, everything):
    """Give the numbers of the lines that a rank wrote, as they stand on the terminal."""
    found = (re.fullmatch(rf"\[ ?{rank}\] line (\d+) of {rank}", line) for line in everything)
    return [int(match[1]) for match in found if match]


def rows_of(shown):
    """Give the rows of the view: what stands between its titles and its last line."""
    (top,) = (y for y, line in enumerate(shown) if line.startswith("RANK "))
    return shown[top + 1 : -1]


def test_four_ranks(tmp_path, work):
    go = tmp_path / "go"
    with Screen("run", "-n", 4, "--live", work, go, 200) as terminal:
        rows = (rf"^{r} +RUNNING +200/400 .*0\.5 .*MB.*line 200 of {r}$" for r in range(4))
        shown = terminal.until_shown(*rows, r"^work\.py: 4 RUNNING, 200/400")
        assert len(rows_of(shown)) == 4
        assert shown[-1].startswith("work.py: 4 RUNNING, ")
        go.touch()
        assert terminal.end() == 0
        text = terminal.everything()
    for rank in range(4):
        assert log_of(rank, text) == list(range(1, 401))
        assert [line for line in text if re.match(rf"{rank} +finished +400/400", line)]
    assert sum(line.startswith("RANK ") for line in text) == 1, "parts of the view in the log"
    terminal.is_clean()


def test_ctrl_c_says_how_long_it_takes_and_a_second_one_kills(tmp_path):
    script = write(
        tmp_path / "stay.py",
        """
        import os, signal, time
        signal.signal(signal.SIGINT, lambda *_: os.write(1, b"I stay\\n"))
        print("here", flush=True)
        while True:
            time.sleep(3600)
        """,
    )
    with Screen("run", "-n", 2, "--live", "--no-fold", script) as terminal:
        terminal.until_shown(r"^\[0\] here", r"^\[1\] here", r"2 RUNNING")
        terminal.type(b"\x03")
        terminal.until_shown(r"^stopping, 2 ranks left, \d+ s to SIGKILL")
        terminal.type(b"\x03")
        assert terminal.end() == 130
        text = terminal.everything()
    assert sum(line.endswith("[0] I stay") for line in text) == 1
    assert sum(line.endswith("[1] I stay") for line in text) == 1
    assert [line for line in text if re.match(r"0 +stopped", line)]
    assert any(line.startswith("procession: stay.py was stopped by Ctrl-C after ") for line in text)
    terminal.is_clean()


def test_what_ranks_print_cannot_break_the_view(tmp_path):
    script = write(
        tmp_path / "evil.py",
        """
        import os, pathlib, sys, time
        import procession
        procession.beat(1, 2, note="\\x1b[2Jx")
        print("\\x1b[2J\\x1b[r\\x1b[?1049h\\x1b[31mred \\x1b]0;title\\x07", end="", flush=True)
        while not pathlib.Path(sys.argv[1]).exists():
            time.sleep(0.01)
        """,
    )
    go = tmp_path / "go"
    with Screen("run", "-n", 2, "--live", script, go) as terminal:
        shown = terminal.until_shown(
            r"^\[0\] \^\[\[2J", r"^\[1\] \^\[\[2J", r"^1 +RUNNING .*1/2", r"2 RUNNING"
        )
        assert shown[-1].startswith("evil.py: 2 RUNNING")
        go.touch()
        assert terminal.end() == 0
    terminal.is_clean()


def test_stopped_and_continued_by_the_shell(tmp_path, work):
    go = tmp_path / "go"
    with Screen("run", "-n", 2, "--live", work, go, 10) as terminal:
        terminal.until_shown(r"^1 +RUNNING +10/20 ")
        os.kill(terminal.pid, signal.SIGTSTP)

        def stopped():
            with open(f"/proc/{terminal.pid}/stat", "rb") as f:
                return f.read().rpartition(b")")[2].split()[0] == b"T"

        until(stopped, "the stop")
        until(lambda: "RANK" not in "".join(terminal.display()), "the end of the view")
        assert terminal.emulated.margins is None
        os.kill(terminal.pid, signal.SIGCONT)
        terminal.until_shown(r"^1 +RUNNING +10/20 ")
        go.touch()
        assert terminal.end() == 0
    terminal.is_clean()


def test_a_crash_of_the_view_leaves_the_group_alone(tmp_path, work, monkeypatch):
    write(tmp_path / "broken" / "rich" / "__init__.py", 'raise ValueError("it is broken")')
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "broken"))
    go = tmp_path / "go"
    with Screen("run", "-n", 2, "--live", work, go, 5) as terminal:
        terminal.until_shown(r"^procession: the live view failed and is gone \(ValueError: it is b")
        assert terminal.process.poll() is None
        go.touch()
        assert terminal.end() == 0
        text = terminal.everything()
    assert log_of(0, text) == log_of(1, text) == list(range(1, 11))
    terminal.is_clean()
