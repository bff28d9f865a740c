"""What a test keeps: it ends with the test."""

import os
import signal

from conftest import alive, until
from seams.warm import Gone, templates


class Kept:
    """The templates of this test."""

    def __init__(self):
        self.seen = set()  # the pids of all that was ever kept

    def list(self):
        """Describe what is kept, the one that waits for longest first."""
        kept = []
        for each in templates():
            self.seen.add(each.pid)
            try:
                kept.append(each.describe())
            except Gone:
                pass
        return kept

    def one(self):
        """Give the only one that is kept."""
        (kept,) = self.list()
        return kept

    def stop(self):
        """End what is kept; wait until all of it is gone."""
        for each in templates():
            self.seen.add(each.pid)
            each.end()
        for pid in self.seen:
            until(lambda pid=pid: not alive(pid), f"the end of {pid}, which was kept")


def kept_by_test():
    """Give what a test keeps, for its fixture."""
    found = Kept()
    yield found
    for pid in found.seen:
        if alive(pid):
            os.kill(pid, signal.SIGCONT)  # a test may have stopped it
    found.stop()
