"""How the tasks of one step of `srun` meet: task 0 tells the others what an agent needs.

Theory of operation. All that the tasks know in common are the numbers of job and step, and a shared
file system is not assumed. So the driver listens on one of a few ports that are computed from those
numbers, and the other tasks try each of them in turn. Both sides prove who they are as Slurm does,
by MUNGE: any user of a machine of the cluster can make a credential; it shows the user's uid, and
can be made so that only one uid can read it.

    driver -> task: a nonce
    task -> driver: sealed for this uid: job, step, the task's number, the driver's nonce, its own
    driver -> task: sealed for this uid: job, step, number, the task's nonce, what an agent needs

Both sides accept only what their own uid has made, for this job, step and connection. So another
program that listens on such a port, or a man in the middle, learns nothing and is not believed; the
task tries the next port.

Rejected: a file in the home directory (not shared everywhere, and seen late), PMI (needs libraries
and an option of srun), another step (srun's tasks hold the CPUs already).
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

from procession.engines.addresses import listen
from procession.engines.contract import EngineError
from procession.engines.slurm.allocation import Task
from procession.engines.slurm.munge import Munge
from procession.engines.slurm.processes import ask
from procession.values.typed import cast

PORTS = 8  # that one step may use
FIRST_PORT, LAST_PORT = 20000, 32000  # as in `system.ports`
MEET_WITHIN = 120.0  # seconds: tasks of one step may start long after each other
ANSWER_WITHIN = 10.0  # seconds, for one peer
MOST_AT_ONCE = 64
LONGEST = 1 << 16  # bytes of a line


class Door:
    """Gives the tasks of a step what an agent needs, until it is closed.

    task: this one. variables: for the environment of agents. came: tasks that have got them.
    refused: why others got nothing, in words.
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
        self.came: set[int] = set()
        self._thread = threading.Thread(target=self._serve, name="procession-door", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """The port on which it listens."""
        return int(self._listener.getsockname()[1])

    def close(self) -> None:
        """Accept no more connections, and wait until the open ones have ended."""
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
        if type(number) is not int or not 0 < number < task.count:
            number = 0  # not another task
        if not number or said != ["ask", task.job, task.step, nonce]:
            raise EngineError("a credential of another step, or connection")
        answer = {
            "kind": "answer", "job": task.job, "step": task.step, "task": number,
            "asked": asked["nonce"], "variables": self._variables,
        }  # fmt: skip
        sock.sendall(self._munge.seal(answer) + b"\n")
        self.came.add(number)


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
            return listen(port)
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
