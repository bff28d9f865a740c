"""A launcher that reads an outcome channel: what its agent passes on, and what is made of it."""

from seams.agent import Channel
from seams.prepare import Frames


class Reader:
    """Reads the channel of a rank that may send what `may` says."""

    def __init__(self, sock, may):
        words = {"largest": may.largest, "pickles": may.pickles}
        self._frames = Frames()
        self._channel = Channel(sock, 0, words, self._take)
        self.refused = ""
        self.answer, self.close = self._channel.answer, self._channel.close

    def _take(self, kind, _rank, *words, fds=()):
        if kind == "refused":
            self.refused = words[0]
        elif kind == "piece":
            self._frames.add(*words)
        elif kind == "frame":
            self._frames.take(*words)
        else:
            self._frames.take_file(*words, *fds)

    def read(self):
        """Read all that there is; whether an outcome has come."""
        return self._channel.read(whole=True)

    @property
    def report(self):
        return self._frames.report

    @property
    def fault(self):
        return self._frames.fault

    @property
    def torn(self):
        return self._channel.torn

    @property
    def ended(self):
        return self._channel.ended
