"""The keeper of a test: it ends with the test, and all that it keeps."""

import os
import signal

from conftest import alive, until
from seams.warm import Connection, NoKeeper, Unusable


class Kept:
    """The keeper of this test, and what it keeps."""

    def __init__(self):
        self.seen = set()  # the pids of all that was ever kept

    def list(self):
        """Give what is kept; [] without a keeper."""
        try:
            connection = Connection(10.0)
        except NoKeeper:
            return []
        try:
            self.seen.add(connection.pid)
            kept = connection.list()
        finally:
            connection.close()
        self.seen |= {each["pid"] for each in kept}
        return kept

    def one(self):
        """Give the only one that is kept."""
        (kept,) = self.list()
        return kept

    def pid(self):
        """Give the pid of the keeper."""
        connection = Connection(10.0)
        connection.close()
        return connection.pid

    def stop(self):
        """End the keeper, and what it keeps; wait until all of it is gone."""
        try:
            self.list()
            connection = Connection(10.0)
            keeper = connection.pid
            try:
                connection.stop()
            finally:
                connection.close()
            until(lambda: not alive(keeper), "the end of the keeper")
        except (NoKeeper, Unusable):
            pass
        for pid in self.seen:
            until(lambda pid=pid: not alive(pid), f"the end of {pid}, which was kept")


def keeper():
    """Give the keeper of a test, for its fixture."""
    found = Kept()
    yield found
    for pid in found.seen:
        if alive(pid):
            os.kill(pid, signal.SIGCONT)  # a test may have stopped it
    found.stop()
