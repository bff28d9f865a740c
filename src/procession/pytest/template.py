"""The template: the process that launches the ranks of each test, and has run no test itself.

Theory of operation. It is a launcher like any other: each test is a group (`procession.group`), of
start method `fork`. The forkserver of that method, a fork of the template, is kept from test to
test and made anew only when a shared fixture was made since, or when it was lost. Ranks that are
kept for several tests have one of their own. Ranks talk to the template while they run
(`conversation`): what each phase of the test came to, as soon as it has; the values of `gather`.
A rank that fails its test says so and goes on to its teardown; the others have `PATIENCE` to come
to their own end, then it is noted where they are, and they are ended. A rank that ends otherwise (a
signal, `os._exit`) is a failure of its group, as anywhere in procession.

The outcome of a test goes to pytest's process as plain data.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import tempfile
import time
from functools import partial
from multiprocessing.connection import Connection

from procession.explain.report import what_happened
from procession.group.making import start_spec
from procession.prepare.jobs import lasting_server
from procession.pytest import fresh, inrank, sharedfixtures
from procession.pytest.conversation import GRACE, LINGER, PATIENCE, Conversation
from procession.pytest.ranks import Ranks, knocked
from procession.pytest.wire import Line
from procession.values.errors import GroupFailed, ProcessionError
from procession.values.policy import Hang, Logs, Stop
from procession.values.spec import make_spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from procession.forkserver.client import ForkServer

    Told = dict[str, Any]


MANY = 8  # tests, after which it is worth some 0.1 s to make the forks of the next ones quicker
KEPT = "kept"  # the directory of what ranks have written that are kept
LEAVE = "leave"  # what pytest says when it has no test any more for ranks that are kept
PATIENCE_WITH_KEPT = 10.0  # seconds that these have to tear down what their tests share


class Template:
    """The loop. line: to pytest's process. session: pytest's, with all items.

    terminal: what a rank is given that is debugged, see `terminal`. in_common: shared fixtures are
    not made here, but in the process that the templates of all workers are forks of, see `maker`.
    """

    def __init__(
        self, line: Line, session: Any, terminal: tuple[int, ...], in_common: bool = False
    ) -> None:
        self._line = line
        self._in_common = in_common
        self._session = session
        self._terminal = terminal
        self._server: ForkServer | None = None
        self._uses = 0  # tests whose ranks it has forked
        self._kept: Ranks | None = None
        self._files = tempfile.mkdtemp(prefix="procession-pytest-")
        self._door, self._knock = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._door.setblocking(False)

    def serve(self) -> None:
        """Launch what is asked for until pytest is gone."""
        os.setpgid(0, 0)
        inrank.prepare(self._session.config)
        try:
            self._line.send(("ready", (os.getpid(), self._files)))
            while True:
                request = self._line.receive()
                came = self._run(request) if request != LEAVE else self._end_kept()
                self._line.send(("came", came))
        except (EOFError, OSError):
            pass
        finally:
            self._end_kept()
            shutil.rmtree(self._files, ignore_errors=True)
            if self._server is not None:
                self._server.close()

    def _run(self, request: Told) -> Told:
        item = self._session.items[request["item"]]
        if request["method"] != "spawn":
            if not self._in_common:
                self._make_shared(item)
            elif not self._has_kept(request) and sharedfixtures.lacking(item):
                return {"lacks": True}
        note = ""
        began = time.monotonic()
        try:
            if request["method"] == "keep":
                ranks, note = self._kept_for(request)
            else:
                ranks = self._start(request, item)
        except GroupFailed as e:
            return {"fault": str(e)}
        except (ProcessionError, OSError) as e:
            return {"fault": f"the ranks could not be started: {e}"}
        conversation = Conversation(self._line, ranks, request, began, self._terminal)
        try:
            came = conversation.held()
        except BaseException:
            conversation.broken = "unknown"
            raise
        finally:
            if ranks is not self._kept:
                ranks.close()
                self._clear()
            elif conversation.broken or request["next"] is None:
                self._end_kept(by_themselves=not conversation.broken)
        return {**came, "note": note}

    def _start(self, request: Told, item: Any) -> Ranks:
        """Start the ranks of one test, or of several if `item` is None."""
        method, keep = request["method"], item is None
        args: tuple[Any, ...] = ()
        function: Any = partial(
            inrank.keep if keep else inrank.run, self._session, self._knock.fileno()
        )
        if method == "spawn":
            function = fresh.run
            # Of a file outside the root directory, the name of a test does not have the path.
            where = f"{item.path}::{item.nodeid.partition('::')[2]}"
            knock = Connection(os.dup(self._knock.fileno()), readable=False)
            args = (knock, fresh.options_of(item.config), where, item.nodeid)
        files = self._files
        if keep:
            files = os.path.join(files, KEPT)
            os.makedirs(files, exist_ok=True)  # of ranks that could not be started
        spec = make_spec(
            function,
            nproc=request["nproc"],
            args=args,
            env={inrank.VARIABLE: json.dumps({**request, "files": files})},
            name=_line(request["keep"][0] if keep else request["name"]),
            start_method="spawn" if method == "spawn" else "fork",
            stop=Stop(grace=GRACE, patience=PATIENCE, linger=LINGER),
            hang=Hang(start=60.0),
            logs=Logs() if request["shown"] else Logs(ranks=()),
        )
        server = None
        if keep:
            server = lasting_server(function)
        elif method == "fork":
            if self._server is None or self._server.lost:
                self._server = lasting_server(function)
                self._uses = 0
            server = self._server
            self._uses += 1
            if self._uses == MANY:
                server.send(("gather",), [], [])
        group = start_spec(spec, None, False, server)
        return Ranks(group, server, self._door, files, request["keep"])

    def _has_kept(self, request: Told) -> bool:
        return self._kept is not None and self._kept.key == request["keep"] is not None

    def _kept_for(self, request: Told) -> tuple[Ranks, str]:
        """Have the ranks of these tests run one; gives them, and what is to be said of them."""
        kept, note = self._kept, ""
        if kept is not None and kept.key == request["keep"]:
            if kept.are_well():
                for rank in range(request["nproc"]):
                    kept.reply(rank, request)
                return kept, ""
            kept.are_over(PATIENCE_WITH_KEPT)
            end = kept.group.end
            why = "; ".join(what_happened(each) for each in end.failures) if end else ""
            note = f"the ranks kept before were lost between two tests, these are new ({why})"
        self._end_kept()
        self._kept = self._start(request, None)
        return self._kept, note

    def _end_kept(self, by_themselves: bool = True) -> Told:
        """End the ranks that are kept, which then tear down what their tests have not."""
        kept, self._kept = self._kept, None
        if kept is not None:
            kept.close(PATIENCE_WITH_KEPT if by_themselves else 0.0)
            if kept.server is not None:
                kept.server.close()
            shutil.rmtree(kept.files, ignore_errors=True)
        return {}

    def _make_shared(self, item: Any) -> None:
        """Make the shared fixtures that a test needs; ranks are forks of what is there then."""
        made = sharedfixtures.make_for(item, lambda name: self._line.send(("making", name)))
        if made and self._server is not None:
            self._server.close()
            self._server = None

    def _clear(self) -> None:
        """Remove the files of a test's ranks, and hear nobody who comes too late."""
        for name in os.listdir(self._files):
            if name != KEPT:
                os.unlink(os.path.join(self._files, name))
        while True:
            try:
                _, fds = knocked(self._door)
            except BlockingIOError:
                return
            for fd in fds:
                os.close(fd)


def _line(name: str) -> str:
    """Make of the name of a test one that a group may have."""
    return "".join(c if c.isprintable() else "?" for c in name)
