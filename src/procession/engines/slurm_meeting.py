"""How the tasks of one step of `srun` meet: task 0 tells the others what an agent needs.

Theory of operation. Nothing but the job's and the step's number is known to all tasks, and no file
system is taken to be shared. So the driver listens on one of a few ports that follow from those
numbers, and the other tasks ask at each of them in turn. What proves who asks and who answers is
what Slurm itself uses: MUNGE. A credential can be made by whoever has a uid on a machine of the
cluster, tells that uid, and, if it is made so, can be read by one uid alone.

    driver -> task: a nonce
    task -> driver: sealed for this uid: job, step, the task's number, the driver's nonce, its own
    driver -> task: sealed for this uid: job, step, number, the task's nonce, what an agent needs

Both sides take only what their own uid has made, for this job and step and this connection. So who
listens on such a port before the driver, or stands between, learns nothing and cannot be believed;
the task asks at the next port.

Rejected: a file in the home directory (not shared everywhere, and slow to be seen), PMI (needs
libraries and an option of srun), a step of one's own (srun's tasks hold the CPUs already).
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import socket
import threading
import time
from collections.abc import Mapping

from procession.engines.contract import EngineError
from procession.engines.munge import Munge
from procession.engines.slurm_allocation import Task
from procession.engines.slurm_processes import ask
from procession.typed import cast

PORTS = 8  # that one step may use
FIRST_PORT, LAST_PORT = 20000, 32000  # as in `system.ports`
MEET_WITHIN = 120.0  # seconds: tasks of one step may start long after each other
ANSWER_WITHIN = 10.0  # seconds, for one peer
MOST_AT_ONCE = 64
LONGEST = 1 << 16  # bytes of a line


class Door:
    """Where the tasks of a step get what an agent needs, until it is closed.

    task: this one. variables: for their environment. refused: why others got nothing, in words.
    """

    def __init__(self, task: Task, variables: Mapping[str, str]) -> None:
        self._task = task
        self._variables = dict(variables)
        self._munge = Munge()
        self._listener = _listen(task)
        self._room = threading.Semaphore(MOST_AT_ONCE)
        self._closing = False
        self._guests: set[threading.Thread] = set()
        self.refused: list[str] = []
        self._thread = threading.Thread(target=self._serve, name="procession-door", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """Where it is."""
        return int(self._listener.getsockname()[1])

    def close(self) -> None:
        """Let nobody in any more; returns when who was in has gone."""
        self._closing = True
        self._listener.shutdown(socket.SHUT_RDWR)  # wakes `accept`; a close would not
        self._thread.join()
        self._listener.close()
        for guest in list(self._guests):
            guest.join()

    def _serve(self) -> None:
        while not self._closing:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                time.sleep(0.1)  # no descriptor is left
                continue
            if self._closing or not self._room.acquire(timeout=ANSWER_WITHIN):
                sock.close()
                continue
            guest = threading.Thread(target=self._receive, args=(sock,), daemon=True)
            self._guests.add(guest)
            guest.start()

    def _receive(self, sock: socket.socket) -> None:
        try:
            with sock:
                sock.settimeout(ANSWER_WITHIN)
                self._answer(sock)
        except (OSError, EngineError, ValueError, TypeError, KeyError) as e:
            self.refused.append(str(e))
        finally:
            self._room.release()
            self._guests.discard(threading.current_thread())

    def _answer(self, sock: socket.socket) -> None:
        nonce = secrets.token_hex(16)
        sock.sendall(nonce.encode() + b"\n")
        asked = self._munge.open(_read_line(sock))
        task = self._task
        number = asked.get("task")
        said = [asked.get(n) for n in ("kind", "job", "step", "driver")]
        ours = type(number) is int and 0 < number < task.count
        if not ours or said != ["ask", task.job, task.step, nonce]:
            raise EngineError("a credential of another step, or connection")
        answer = {
            "kind": "answer", "job": task.job, "step": task.step, "task": number,
            "asked": asked["nonce"], "variables": self._variables,
        }  # fmt: skip
        sock.sendall(self._munge.seal(answer) + b"\n")


def join(task: Task, *, seconds: float = MEET_WITHIN) -> dict[str, str]:
    """Ask task 0 for what an agent's environment needs. Raises EngineError."""
    munge = Munge()
    host = address_of(task.nodes[0])
    ends = time.monotonic() + seconds
    fault = "nobody listens"
    while True:
        for port in ports(task):
            try:
                return _ask_at(host, port, task, munge)
            except ConnectionRefusedError:
                pass
            except (OSError, EngineError, ValueError) as e:
                fault = f"port {port}: {e}"
        if time.monotonic() > ends:
            raise EngineError(
                f"task {task.number} of step {task.job}.{task.step} found no driver on "
                f"{task.nodes[0]} ({host}) within {seconds:g} s: {fault}"
            )
        time.sleep(0.1)


def _ask_at(host: str, port: int, task: Task, munge: Munge) -> dict[str, str]:
    with socket.create_connection((host, port), ANSWER_WITHIN) as sock:
        driver = _read_line(sock).decode("ascii")
        nonce = secrets.token_hex(16)
        asked = {
            "kind": "ask", "job": task.job, "step": task.step, "task": task.number,
            "driver": driver, "nonce": nonce,
        }  # fmt: skip
        sock.sendall(munge.seal(asked) + b"\n")
        answer = munge.open(_read_line(sock))
    said = [answer.get(n) for n in ("kind", "job", "step", "task", "asked")]
    if said != ["answer", task.job, task.step, task.number, nonce]:
        raise EngineError("a credential of another step, or connection")
    return cast("dict[str, str]", answer["variables"])


def ports(task: Task) -> list[int]:
    """Give the ports at which the tasks of a step may meet."""
    found: list[int] = []
    for number in range(PORTS):
        seed = f"procession {task.job}.{task.step} {number}".encode()
        drawn = int.from_bytes(hashlib.sha256(seed).digest()[:8], "big")
        found.append(FIRST_PORT + drawn % (LAST_PORT - FIRST_PORT))
    return list(dict.fromkeys(found))


def address_of(node: str) -> str:
    """Give the address by which Slurm reaches a node; its name, where Slurm does not say."""
    try:
        said = ask(("scontrol", "show", "node", "--oneliner", node), os.environ)
    except EngineError:
        return node
    match = re.search(r"\bNodeAddr=(\S+)", said)
    return match[1] if match else node


def _listen(task: Task) -> socket.socket:
    for port in ports(task):
        try:
            if socket.has_dualstack_ipv6():
                return socket.create_server(
                    ("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=4096
                )
            return socket.create_server(("", port), backlog=4096)
        except OSError:
            continue
    raise EngineError(
        f"none of the ports of step {task.job}.{task.step} is free here: {ports(task)}; start the "
        "step again"
    )


def _read_line(sock: socket.socket) -> bytes:
    """Read up to the end of a line. Raises EngineError for one that does not end."""
    data = b""
    while not data.endswith(b"\n"):
        block = sock.recv(4096)
        if not block or len(data) > LONGEST:
            raise EngineError("the connection ended, or was no task's")
        data += block
    return data.strip()


__all__ = ["Door", "address_of", "join", "ports"]
