"""What ssh runs on a node: it starts the node process and watches it, as an actor does under Ray.

It reads one line from its standard input: the node process's command, directory and variables, the
key among them, so that the key stands in no command line. When that input ends, for whatever
reason, the connection is gone: then the node process's own input ends, which makes it end its
ranks. A node process that does not do so is killed, also when the driver says so.

It imports the standard library only. `commands` has the lines that it prints.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from typing import IO, Any, NoReturn

from procession.agent.boot import own_python_here
from procession.engines.contract import INVITATION, ON_STDIN
from procession.values.base import cast

MOST = 1 << 20  # bytes of the first line
OBEYS = 8.0  # seconds that a node process has to end its ranks when the connection is gone


def main() -> NoReturn:
    """Be the node's side of a connection."""
    from procession.engines.ssh.commands import ENDED, FAULT, STARTED

    try:
        start = _first_line()
        process = _start(start)
    except (OSError, ValueError, KeyError) as e:
        _say(f"{FAULT} {e}")
        os._exit(1)
    _say(f"{STARTED} {os.uname().nodename} {process.pid}")
    threading.Thread(target=_follow, args=(process,), daemon=True).start()
    code = process.wait()
    if code:
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"exited with {code}"
        _say(f"{ENDED} the node process on {os.uname().nodename} {how}")
    os._exit(0)


def _say(text: str) -> None:
    try:
        os.write(1, f"{text}\n".encode(errors="backslashreplace"))
    except OSError:
        pass  # nobody reads it any more


def _first_line() -> dict[str, Any]:
    line = b""
    while not line.endswith(b"\n"):
        more = os.read(0, 1)  # reads no byte beyond the line
        if not more or len(line) > MOST:
            raise ValueError("the driver said nothing")
        line += more
    try:
        start: Any = json.loads(line)
    except ValueError:
        start = None
    if not isinstance(start, dict):
        raise ValueError(
            "what the driver says did not arrive whole: a profile there, or a command in one, "
            "reads standard input; let it do so only in shells with a terminal"
        )
    return cast("dict[str, Any]", start)


def _start(start: dict[str, Any]) -> subprocess.Popen[bytes]:
    directory = start["directory"]
    try:
        os.chdir(directory)
    except OSError as e:
        raise ValueError(
            f"{os.uname().nodename} has no directory {directory!r} ({e.strerror}): ranks run in "
            "the directory of the command; start it in one that all hosts share"
        ) from None
    return subprocess.Popen(
        own_python_here(start["argv"]),
        env={**os.environ, **with_client(start["env"], os.environ.get("SSH_CONNECTION", "")),
             ON_STDIN: "1"},
        stdin=subprocess.PIPE,
        start_new_session=True,
    )  # fmt: skip


def with_client(env: dict[str, str], connection: str) -> dict[str, str]:
    """Add the address from which the driver connected to those where it may be reached.

    connection: SSH_CONNECTION. A loopback address in it is of no use to other hosts.
    """
    address = connection.partition(" ")[0].partition("%")[0]
    invitation = json.loads(env[INVITATION])
    at = invitation["at"]
    if address and not address.startswith(("127.", "::1")) and at:
        known = [host for host, _ in at]
        if address not in known:
            invitation["at"] = [[address, at[0][1]], *at]
    return {**env, INVITATION: json.dumps(invitation)}


def _follow(process: subprocess.Popen[bytes]) -> None:
    """Kill the process when the driver says so, or when the connection is gone for too long."""
    stdin: IO[bytes] | None = process.stdin
    while said := os.read(0, 4096):
        if b"kill" in said:
            process.kill()
    if stdin is not None:
        stdin.close()
    try:
        process.wait(OBEYS)
    except subprocess.TimeoutExpired:
        process.kill()
