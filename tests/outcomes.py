"""A launcher that reads an outcome channel: what its agent passes on, and what is made of it."""

from seams.agent import Channel
from seams.prepare import Frames


class Reader:
    """Reads the channel of a rank that may send what `may` says."""

    def __init__(self, sock, may):
        self._frames = Frames()
        self._channel = Channel(sock, 0, may, self._take)
        self.refused = ""

    def _take(self, kind, _rank, *words, fds=()):
        if kind == "refused":
            self.refused = words[0]
        elif kind == "piece":
            self._frames.add(*words)
        elif kind == "frame":
            self._frames.take_frame(*words)
        else:
            self._frames.take_file(*words, *fds)

    def read(self):
        """Read all that there is; whether an outcome has come."""
        return self._channel.read(whole=True)

    def __getattr__(self, name):
        return getattr(self._frames if name in ("report", "fault") else self._channel, name)
