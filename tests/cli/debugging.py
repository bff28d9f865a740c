"""A person at the prompt of the debugger, and an editor that attaches to a rank."""

import json
import re
import socket

from support import until

PROMPT = rb"\[(\d+)\] \(Pdb\) $"
PATIENCE = 60  # seconds


class Debugging:
    """A terminal on which somebody debugs."""

    def __init__(self, terminal):
        self.terminal = terminal
        self.read = 0

    def prompt(self):
        """Wait for the next prompt; gives what was shown before it, without its rank, and that."""

        def look():
            new = bytes(self.terminal.screen[self.read :]).replace(b"\r", b"")
            return (found := re.search(PROMPT, new)) and (new[: found.start()], int(found[1]))

        shown, rank = until(look, "a prompt", PATIENCE)
        self.read = len(self.terminal.screen)
        return shown.decode(), rank

    def type(self, line):
        """Type a line; gives what comes of it, and the rank of the next prompt."""
        self.terminal.type(f"{line}\n".encode())
        return self.prompt()


class Editor:
    """What an editor says to debugpy: the Debug Adapter Protocol."""

    def __init__(self, port):
        self._socket = until(lambda: _connected(port), f"debugpy at port {port}", PATIENCE)
        self._file = self._socket.makefile("rb")
        self._sequence = 0
        self.events = []  # those that nobody has waited for yet

    def ask(self, command, answered=True, **arguments):
        """Ask, and wait for the answer."""
        self._sequence += 1
        asked = {"seq": self._sequence, "type": "request", "command": command}
        body = json.dumps({**asked, "arguments": arguments}).encode()
        self._socket.sendall(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        while answered:
            said = self._next()
            if said["type"] == "response" and said["command"] == command:
                assert said["success"], said
                return said.get("body")
            self.events.append(said)
        return None

    def event(self, name):
        """Wait for an event."""
        while True:
            for said in self.events:
                if said.get("event") == name:
                    self.events.remove(said)
                    return said.get("body")
            self.events.append(self._next())

    def _next(self):
        length = int(self._file.readline().split()[1])
        assert self._file.readline() == b"\r\n"
        return json.loads(self._file.read(length))

    def close(self):
        """Go away."""
        self._file.close()
        self._socket.close()


def _connected(port):
    try:
        sock = socket.create_connection(("127.0.0.1", port), PATIENCE)
    except ConnectionRefusedError:
        return None
    return sock
