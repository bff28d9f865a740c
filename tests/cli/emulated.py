"""The command on an emulated terminal: what a user's screen would show."""

import re

import pyte
import pytest
from commandline import Terminal

from support import until


class Screen(Terminal):
    """A command on an emulated terminal, of 80 x 24 if nothing else is said."""

    def __init__(self, *words, rows=24, columns=80, **options):
        super().__init__(*words, rows=rows, columns=columns, **options)
        self.emulated = pyte.HistoryScreen(columns, rows, history=100_000)
        self._stream = pyte.ByteStream(self.emulated)
        self._fed = 0

    def display(self):
        """Give the lines on the screen, without the blanks at their ends."""
        new = bytes(self.screen[self._fed :])
        self._fed += len(new)
        self._stream.feed(new)
        return [line.rstrip() for line in self.emulated.display]

    def everything(self):
        """Give the lines of the scrollback and of the screen."""
        shown = self.display()
        above = self.emulated.history.top
        columns = range(self.emulated.columns)
        return ["".join(line[x].data for x in columns).rstrip() for line in above] + shown

    def until_shown(self, *patterns, patience=20):
        """Wait until each of these is on the screen; gives the screen as it was then."""
        shown = []

        def look():
            ended = self.process.poll() is not None and not self._threads[0].is_alive()
            shown[:] = self.display()  # after that: it has all if it has ended
            text = "\n".join(shown)
            found = all(re.search(p, text, re.MULTILINE) for p in patterns)
            if not found and ended:
                pytest.fail(f"it ended ({self.process.returncode}):\n{text}")
            return found

        until(look, f"{patterns} in\n" + "\n".join(self.display()), patience)
        return shown

    def is_clean(self):
        """Check that the terminal is as it was, with the cursor below all text."""
        shown = self.display()
        screen = self.emulated
        assert screen.margins is None, "it scrolls as a whole"
        assert not screen.cursor.hidden
        assert screen.cursor.x == 0
        assert not any(shown[screen.cursor.y :]), shown
        assert bytes(self.screen).rfind(b"\x1b[?25h") >= bytes(self.screen).rfind(b"\x1b[?25l")
