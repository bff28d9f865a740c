"""A wire between two programs of this machine that can be cut, or left without anything passing."""

from __future__ import annotations

import contextlib
import socket
import threading


class Wire:
    """Passes on what comes to a port of its own. port: that one; to: the port behind it."""

    def __init__(self, to: int) -> None:
        self._to = to
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._silent = threading.Event()
        self._sockets: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listening.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self._to), 5)
                far.settimeout(None)
            except OSError:
                near.close()  # nobody listens yet
                continue
            self._sockets += [near, far]
            for source, target in ((near, far), (far, near)):
                thread = threading.Thread(target=self._pass, args=(source, target))
                self._threads.append(thread)
                thread.start()

    def _pass(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if not self._silent.is_set():
                    target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    def silence(self) -> None:
        """Pass on nothing any more, in either direction; the connections stay."""
        self._silent.set()

    def cut(self) -> None:
        """End the connections."""
        for each in self._sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Cut it, and let nobody in."""
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._threads[0].join()
        self._listening.close()
        self.cut()
        for thread in self._threads:
            thread.join()
        for each in self._sockets:
            each.close()
