"""The template: the process that launches the ranks of each test, and has run no test itself.

Theory of operation. It is a launcher like any other: each test is a group (`procession.group`), of
start method `fork`. The forkserver of that method, a fork of the template, is kept from test to
test and made anew only when a shared fixture was made since, or when it was lost. Ranks talk to the
template while they run (`conversation`): what each phase of the test came to, as soon as it has;
the values of `gather`; where the store of a process group is. A rank that fails its test says so
and goes on to its teardown; the others have `PATIENCE` to come to their own end, then it is noted
where they are, and they are ended. Whoever ends otherwise (a signal, `os._exit`) is the failure of
a group as anywhere in procession.

What came of a test goes to pytest's process as plain data, see `result_of`.
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

from procession.group.making import start_spec
from procession.prepare.jobs import lasting_server
from procession.pytest import fresh, inrank, sharedfixtures
from procession.pytest.around import Around, knocked
from procession.pytest.conversation import GRACE, LINGER, PATIENCE, Conversation
from procession.pytest.wire import Line
from procession.values.errors import GroupFailed, ProcessionError
from procession.values.policy import Hang, Logs, Stop
from procession.values.spec import make_spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from procession.forkserver.client import ForkServer

    Told = dict[str, Any]


class Template:
    """The loop. line: to pytest's process. session: pytest's, with all items.

    terminal: what a rank is given that is debugged, see `terminal`.
    """

    def __init__(self, line: Line, session: Any, terminal: tuple[int, ...]) -> None:
        self._line = line
        self._session = session
        self._terminal = terminal
        self._server: ForkServer | None = None
        self._files = tempfile.mkdtemp(prefix="procession-pytest-")
        self._door, self._knock = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._door.setblocking(False)

    def serve(self) -> None:
        """Launch what is asked for until pytest is gone."""
        os.setpgid(0, 0)
        try:
            while True:
                request = self._line.receive()
                self._line.send(("came", self._run(request)))
        except (EOFError, OSError):
            pass
        finally:
            shutil.rmtree(self._files, ignore_errors=True)
            if self._server is not None:
                self._server.close()

    def _run(self, request: Told) -> Told:
        item = self._session.items[request["item"]]
        if request["method"] == "fork":
            self._make_shared(item)
        spawned = request["method"] == "spawn"
        args: tuple[Any, ...] = ()
        function: Any = partial(inrank.run, self._session, self._knock.fileno())
        if spawned:
            function = fresh.run
            where = f"{item.config.rootpath}/{item.nodeid}"
            knock = Connection(os.dup(self._knock.fileno()), readable=False)
            args = (knock, fresh.options_of(item.config), where, item.nodeid)
        logs = Logs() if request["shown"] else Logs(ranks=())
        said = json.dumps({**request, "files": self._files})
        try:
            spec = make_spec(
                function,
                nproc=request["nproc"],
                args=args,
                env={inrank.VARIABLE: said},
                name=request["name"],
                start_method="spawn" if spawned else "fork",
                stop=Stop(grace=GRACE, patience=PATIENCE, linger=LINGER),
                hang=Hang(start=60.0),
                logs=logs,
            )
            if not spawned and (self._server is None or self._server.lost):
                self._server = lasting_server(function)
            began = time.monotonic()
            group = start_spec(spec, None, False, None if spawned else self._server)
        except GroupFailed as e:
            return {"fault": str(e)}
        except (ProcessionError, OSError) as e:
            return {"fault": f"the ranks could not be started: {e}"}
        server = None if spawned else self._server
        around = Around(self._line, self._door, server, self._files, self._terminal)
        try:
            with group:
                return Conversation(around, group, request, began).held()
        finally:
            self._clear()

    def _make_shared(self, item: Any) -> None:
        """Make the shared fixtures that a test needs; ranks are forks of what is there then."""
        by_name = {
            name: definitions[-1]
            for name, definitions in item._fixtureinfo.name2fixturedefs.items()
            if definitions
        }
        before = len(sharedfixtures.values) + len(sharedfixtures.failures)
        for definition in sharedfixtures.shared_of(by_name.values()):
            self._line.send(("making", definition.argname))
            sharedfixtures.make(definition, by_name)
        if len(sharedfixtures.values) + len(sharedfixtures.failures) > before:
            import gc

            gc.collect()
            gc.freeze()
            if self._server is not None:
                self._server.close()
                self._server = None

    def _clear(self) -> None:
        """Remove the files of a test's ranks, and hear nobody who comes too late."""
        for name in os.listdir(self._files):
            os.unlink(os.path.join(self._files, name))
        while True:
            try:
                _, fds = knocked(self._door)
            except BlockingIOError:
                return
            for fd in fds:
                os.close(fd)
