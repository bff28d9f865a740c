"""An agent between two launches, a template: it listens for the next launcher with equal needs.

Theory of operation. A launcher whose run is over asks its agent to go on as a template ("keep").
The agent must then have nothing left of the run: no process below it, no descriptor, no variable,
no argument. It makes a socket in the user's runtime directory, and hangs up. A later launcher finds
the socket by its name, which has a digest of how the interpreter was started, and asks for the
agent ("take"). The agent compares what that launcher is and wants with what it has imported and
inherited itself, and takes over the limits and priorities of that launcher (`system.facts`). If all
is equal then, it works for it; else it says what is not, and goes on listening.

A template ends by itself: after its time, when its socket was removed, when what is installed
changes, when memory is short. One whose imports have changed otherwise ends when it is asked for.

Descriptors that imports have left open stay: they were there before the first rank.
"""

from __future__ import annotations

import _socket as socket
import os
import select
import time

from procession.agent import protocol
from procession.agent.imported import forget_searches
from procession.agent.wanted import Preload
from procession.system import facts, tree
from procession.system import plain as signal
from procession.system.files import descriptors, field
from procession.system.identity import own_mark, peer_of
from procession.system.processes import directory_of
from procession.worker.shown import show_mark

TYPE_CHECKING = False  # `typing` takes 7 ms to import, which every launch would pay
if TYPE_CHECKING:
    from typing import Any

    from procession.agent.preload import Preloaded

    Words = dict[str, Any]

LOOK_SECONDS = 5.0  # between two looks at whether it is still of use
CLIENT_SECONDS = 2.0  # for a launcher to say what it wants
BACKLOG = 64
SHORT = 20  # memory is short if less than this part of it is left
OTHER_IMPORTS = 1000  # how far what is kept is from what is wanted


def obstacle(preloaded: Preloaded | None, before: set[int]) -> str:
    """Give why this process cannot be kept, "" if it can.

    before: the descriptors that were open when the run began, and those that belong to no run.
    """
    imported = preloaded.imported if preloaded is not None else None
    if preloaded is None or imported is None:
        return "nobody watched its imports"
    if preloaded.fault or imported.fault:
        return preloaded.fault or imported.fault
    if tree.children():
        return "a process of the run is left"
    if len(os.listdir("/proc/self/task")) > 1:
        return "it has a thread"
    return "a descriptor of the run is left" if descriptors() - before else ""


class Template:
    """An agent while it waits for a launcher.

    terms: from the launcher. name: of its socket, without its pid, which tells how it was started.
    seconds: how long it waits. uses: how many runs it has served. directory: an open one, for its
    socket; it belongs to this object. Raises OSError.
    """

    def __init__(self, terms: Words, uses: int, directory: int, preloaded: Preloaded) -> None:
        assert preloaded.imported is not None
        self._imported, self._its = preloaded.imported, preloaded.wish
        self._seconds, self._uses = terms["seconds"], uses
        self._since = time.monotonic()
        self._directory = directory
        place = f"/proc/self/fd/{directory}"  # short enough for the name of a socket
        self._path = f"{place}/{terms['name']}-{os.getpid()}"
        if not show_mark(own_mark()):  # nobody else's: it is not to be swept with a run
            raise OSError("it has no room for another mark")
        self._facts = facts.read_facts()
        self._useless = False
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        draft = f"{place}/.{os.getpid()}"
        try:
            os.fchmod(self._listening.fileno(), 0o600)
            self._listening.bind(draft)
            self._listening.listen(BACKLOG)
            os.rename(draft, self._path)  # whoever sees it can connect
            self._endured = signal.signal(signal.SIGTERM, signal.SIG_DFL)  # nothing is below it
        except OSError:
            self._listening.close()
            raise

    def wait(self) -> tuple[socket.socket, int] | None:
        """Wait for a launcher that this process can work for; gives the socket to it, and its pid.

        None if this process is of no use any more. Its own socket is gone in both cases.
        """
        until = self._since + self._seconds
        poll = select.poll()
        poll.register(self._listening.fileno(), select.POLLIN)
        taken = None
        while taken is None and not self._useless:
            left = until - time.monotonic()
            if left <= 0:
                break
            if poll.poll(min(left, LOOK_SECONDS) * 1000):
                taken = self._accept()
            elif not os.path.exists(self._path) or self._imported.change_of_search() or _short():
                break
        try:
            os.unlink(self._path)
        except OSError:
            pass  # somebody else did
        self._listening.close()
        os.close(self._directory)
        signal.signal(signal.SIGTERM, self._endured)
        return taken

    def _accept(self) -> tuple[socket.socket, int] | None:
        raw: Any = self._listening
        try:
            fd, _ = raw._accept()
        except OSError:
            return None
        sock = socket.socket(fileno=fd)
        pid, uid = peer_of(sock)
        answer = None
        if pid and uid == os.geteuid():
            try:
                answer = self._answer(_asked(sock), pid)
            except (OSError, LookupError, TypeError, ValueError, EOFError):
                pass  # it says nothing in time, or nothing that can be understood
        if answer == ("taken", 0, ""):
            return sock, pid
        if answer is not None:
            protocol.Sender(sock).send(("reports", [answer]), [], [])
        sock.close()
        return None

    def _answer(self, asked: protocol.Message, pid: int) -> protocol.Message | None:
        if asked[0] == "look":
            shown = {n: getattr(self._its, n) for n in ("modules", "path", "cwd")}
            more = {"age": time.monotonic() - self._since, "seconds": self._seconds}
            return "template", {**shown, **more, "uses": self._uses}
        if asked[0] != "take":
            return None
        _, wish, its, mark = asked
        return ("taken", *self._adapt(Preload(**wish), its, mark, pid))

    def _adapt(self, wish: Preload, its: dict[str, str], mark: str, pid: int) -> tuple[int, str]:
        """Become as a launcher wants this process; gives how far it is from that, and what differs.

        its: facts, or those of its thread. 0 and "" if all is as it wants.
        """
        if why := wish.misfit(self._its):
            return OTHER_IMPORTS, why
        if differ := facts.obstacles(self._facts, its):
            return len(differ), f"what is kept differs in {differ[0]}"
        why = self._imported.changed_variable(wish.env)
        if not why and not directory_of(pid):
            why = "it may not look into the launcher"
        if not why:
            why = self._imported.change()
            self._useless = bool(why)
        if why:
            return 1, why
        self._useless = True  # it is no longer what it was
        forget_searches()
        facts.set_facts(its)
        differ = facts.obstacles(facts.read_facts(), its, exact=True)
        if differ or not show_mark(mark):
            return 1, f"{differ[0] if differ else 'a mark'} could not be given to what is kept"
        return 0, ""


def _asked(sock: socket.socket) -> protocol.Message:
    """Read what a launcher asks. Raises OSError if it does not in time, EOFError, ValueError."""
    sock.settimeout(CLIENT_SECONDS)
    receiver = protocol.Receiver(sock)
    try:
        while not receiver.ended:
            for message, fds in receiver.receive():
                protocol.close_all(fds)
                return message
    finally:
        receiver.close()
    raise EOFError


def _short() -> bool:
    """Whether this machine has little memory left."""
    left, whole = (field("/proc/meminfo", name) or 0 for name in ("MemAvailable", "MemTotal"))
    return left * SHORT < whole
