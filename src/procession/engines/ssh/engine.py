"""Plain ssh as an engine: OpenSSH's own client, one connection to each host.

Theory of operation. On each host ssh runs a small program (`node`) that starts the node process and
holds it. The key goes over the connection's standard input. When the connection ends, for whatever
reason (the driver is killed, ssh is, the network is cut and ssh notices), the node process ends its
ranks and goes. Nothing is ever started twice for one slot, and no second connection is needed: the
order to kill a node process goes over the same one. A host that is cut off ends its ranks when the
node process's lease ends, as under every engine.

Python is looked for on each host: by the path that it has here, then as python3 and python.

Rejected: a library that speaks SSH (it does not use the user's configuration and agent as
ssh does); finding procession by the profile of a login shell (a profile may print or ask anything);
a control master (it outlives us and holds our pipes).
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence

from procession.engines.contract import (
    SLOT,
    Chosen,
    EngineError,
    EngineEvent,
    NodeCommand,
    Said,
    SlotGone,
)
from procession.engines.helper import Helper, end_all
from procession.engines.ssh.commands import (
    ENDED,
    FAULT,
    KILL,
    STARTED,
    check_options,
    ssh_command,
    why_ended,
)
from procession.engines.ssh.hosts import Host, check_spares, parse_hosts, read_hosts
from procession.prepare.work import Share
from procession.values.errors import SpecError

NO_SSH = "ssh is not on the PATH: OpenSSH's client is needed (Debian package openssh-client)"
END_WITHIN = 5.0  # seconds for node processes to go when their connections are closed
KILL_WITHIN = 1.0  # seconds for a kill to get through, before the connection itself is ended
MOST_BEFORE = 64 << 10  # bytes that a log-in may print before it starts a node process
PYTHONS = ("python3", "python")


class SshEngine:
    """Hosts that ssh reaches.

    hosts: names as ssh takes them (`h1`, `user@h2`), or one text of them with commas. Those
        beyond `nnodes` are spare ones.
    python: the Python on the hosts that has procession. None: the path of this one, then python3.
    options: further options for ssh: `["-p", "2222", "-i", "key"]`.

    `ssh HOST` must work without asking anything. Raises SpecError for a malformed host.
    """

    name = "ssh"

    def __init__(
        self,
        hosts: str | Iterable[str],
        *,
        python: str | None = None,
        options: Sequence[str] = (),
    ) -> None:
        text = hosts if isinstance(hosts, str) else ",".join(hosts)
        self.hosts: tuple[Host, ...] = parse_hosts(text, "hosts")
        check_options(options)
        self._pythons = (python,) if python else (sys.executable, *PYTHONS)
        self._options = tuple(options)
        self._connections: dict[int, Helper] = {}
        self._command = NodeCommand((), {})
        self._tell: Callable[[EngineEvent], None] = lambda _: None

    @property
    def slots(self) -> int:
        """How many hosts there are."""
        return len(self.hosts)

    def check(self) -> None:
        """Look for ssh. Raises EngineError."""
        if shutil.which("ssh") is None:
            raise EngineError(NO_SSH)

    def start(self, command: NodeCommand, tell: Callable[[EngineEvent], None]) -> None:
        """Connect to all hosts at the same time. Raises EngineError."""
        self.check()
        self._command, self._tell = command, tell
        for slot in range(self.slots):
            self._connect(slot)

    def replace(self, slot: int) -> None:
        """Connect to the slot's host again; a failure of that is reported as SlotGone."""
        old = self._connections.pop(slot, None)  # its events are ignored from now on
        if old is not None:
            old.kill()
            old.hang_up()
        self._connect(slot)

    def kill(self) -> None:
        """Have all node processes killed, and end the connections."""
        running = [c for c in self._connections.values() if c.running]
        for connection in running:
            connection.say(KILL)
        end_all(running, KILL_WITHIN)

    def close(self) -> None:
        """Hang up, and wait a little for the node processes to go."""
        connections = list(self._connections.values())
        for connection in connections:
            connection.hang_up()
        end_all(connections, END_WITHIN)
        for connection in connections:
            connection.join(None)
        self._connections.clear()

    def _connect(self, slot: int) -> None:
        host = self.hosts[slot].name
        start = {
            "argv": self._command.argv,
            "env": {**self._command.env, SLOT: str(slot)},
            "directory": os.getcwd(),
        }
        connection = self._connections[slot] = Helper(
            ssh_command(host, self._pythons, self._options),
            first=json.dumps(start).encode() + b"\n",
        )
        connection.watch(
            lambda line: self._pass_line_on(slot, connection, line),
            lambda: self._hear_end(slot, connection),
        )

    def _pass_line_on(self, slot: int, connection: Helper, line: str) -> None:
        if connection.heard > MOST_BEFORE and not connection.started:
            connection.last.append("its log-in prints without end")
            connection.kill()
            return
        connection.last.append(line)
        if line.startswith(STARTED):
            connection.started.add(slot)
        elif line.strip() and not line.startswith((ENDED, FAULT)):
            self._tell(Said(f"{self.hosts[slot].name}: {line}"))

    def _hear_end(self, slot: int, connection: Helper) -> None:
        if self._connections.get(slot) is not connection:
            return  # it has been replaced
        host = self.hosts[slot].name
        started = slot in connection.started
        why = why_ended(host, connection.code or 0, connection.last, started=started)
        self._tell(SlotGone(slot, why))


def choose(share: Share, nodes: int | None, spares: int, options: Mapping[str, str]) -> Chosen:
    """Make the engine of `--engine ssh`. Raises SpecError."""
    hosts = read_hosts(options.get("hosts", ""), options.get("hostfile", ""), os.environ)
    text = options.get("engine_options", "")
    try:
        words = shlex.split(text)
    except ValueError as e:
        raise SpecError(f"--engine-options {text!r}: {e}") from None
    engine = SshEngine(
        [host.name for host in hosts], python=options.get("remote_python"), options=words
    )
    return Chosen(engine, share, check_spares(engine.slots, nodes, spares))
