"""The template: the process that launches the ranks of each test, and has run no test itself.

Theory of operation. It is a launcher like any other: each test is a group (`procession.group`), of
start method `fork`. The forkserver of that method, a fork of the template, is kept from test to
test (`source`) and made anew only when a shared fixture was made since, or when it was lost. Ranks
that are kept for several tests have one of their own. Ranks talk to the template while they run
(`grouptalk`): what each phase of the test came to, as soon as it has; the values of `gather`.
A rank that fails its test says so and goes on to its teardown; the others have some time to come
to their own end, then it is noted where they are, and they are ended. A rank that ends otherwise (a
signal, `os._exit`) is a failure of its group, as anywhere in procession.

The outcome of a test goes to pytest's process as plain data.
"""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
import time

from procession.explain.report import what_happened
from procession.group.making import begin
from procession.pytest import fresh, inrank, renew, sharedfixtures
from procession.pytest.grouptalk import LINGER, GroupTalk
from procession.pytest.ranks import Ranks
from procession.pytest.source import Source
from procession.pytest.wire import Line
from procession.values.errors import GroupFailed, ProcessionError
from procession.values.policy import Hang, Logs, Stop
from procession.values.spec import make_spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Told = dict[str, Any]


GRACE = 1.0  # seconds from SIGTERM to SIGKILL, for ranks that are ended
LEAVE = "leave"  # what pytest says when it has no test any more for ranks that are kept
PATIENCE_WITH_KEPT = 10.0  # seconds that these have to tear down what their tests share


class Template:
    """The loop. line: to pytest's process. session: pytest's, with all items.

    terminal: what a rank is given that is debugged, see `terminal`.
    """

    def __init__(self, line: Line, session: Any, terminal: tuple[int, ...]) -> None:
        self._line = line
        self._session = session
        self._terminal = terminal
        self._source: Source | None = None  # what ranks of one test are forked from
        self._count = 0  # sources so far, for the names of their directories
        self._kept: Ranks | None = None
        # It is made with the first source: a fixture that never returns leaves nothing.
        name = f"procession-pytest-{secrets.token_hex(6)}"
        self._files = os.path.join(tempfile.gettempdir(), name)

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
            self._close_source()
            shutil.rmtree(self._files, ignore_errors=True)

    def _run(self, request: Told) -> Told:
        item = self._session.items[request["item"]]
        if request["method"] != "spawn":
            self._make_shared(item)
        note = ""
        began = time.monotonic()
        try:
            if request["method"] == "keep":
                ranks, note = self._kept_for(request)
            elif request["method"] == "spawn":
                ranks = self._start(request, self._new_source(), request["item"])
            else:
                ranks = self._start(request, self._common_source(), request["item"])
        except GroupFailed as e:
            return {"fault": str(e)}
        except (ProcessionError, OSError) as e:
            return {"fault": f"the ranks could not be started: {e}"}
        ranks.run(request)
        conversation = GroupTalk(self._line, ranks, request, began, self._terminal)
        try:
            came = conversation.held()
            ranks.group.wait_started()
        except GroupFailed as e:
            return {"fault": str(e)}
        except BaseException:
            conversation.broken = "unknown"
            raise
        finally:
            if ranks is not self._kept:
                ranks.close()
                ranks.source.clear()
                if ranks.source is not self._source:
                    ranks.source.close()
            elif conversation.broken or request["next"] is None:
                self._end_kept(by_themselves=not conversation.broken)
        return {**came, "note": note, "took": time.monotonic() - began}

    def _start(self, request: Told, source: Source, key: Any) -> Ranks:
        """Start ranks that wait for a test: `key` says for which, or for which ones."""
        method = request["method"]
        function: Any = source.run
        args: tuple[Any, ...] = ()
        if method == "spawn":
            item = self._session.items[request["item"]]
            function = fresh.run
            # Of a file outside the root directory, the name of a test does not have the path.
            where = f"{item.path}::{item.nodeid.partition('::')[2]}"
            options = fresh.options_of(item.config)
            args = (source.knock(), source.files, options, where, item.nodeid)
        spec = make_spec(
            function,
            nproc=request["nproc"],
            args=args,
            name=_line(key[0] if method == "keep" else request["name"]),
            start_method="spawn" if method == "spawn" else "fork",
            stop=Stop(grace=GRACE, patience=GroupTalk.PATIENCE, linger=LINGER),
            hang=Hang(start=60.0),
            logs=Logs() if self._session.config.getoption("capture") == "no" else Logs(ranks=()),
        )
        return Ranks(begin(spec, None, False, source.server), source, key)

    # -- what ranks come from

    def _new_source(self, session: Any = None) -> Source:
        if not self._count:
            os.mkdir(self._files, 0o700)
        self._count += 1
        others = (self._source, None if self._kept is None else self._kept.source)
        private = [fd for source in others if source is not None for fd in source.descriptors]
        files = os.path.join(self._files, str(self._count))
        return Source(files, session, (self._line.fileno(), *private))

    def _common_source(self) -> Source:
        """Give what ranks of single tests come from; none of them is there."""
        if self._source is not None and self._source.is_lost:
            self._close_source()
        if self._source is None:
            self._source = self._new_source(self._session)
        return self._source

    def _close_source(self) -> None:
        source, self._source = self._source, None
        if source is not None:
            source.close()

    def _make_shared(self, item: Any) -> None:
        """Make the shared fixtures that a test needs; ranks are forks of what is there then."""
        if sharedfixtures.make_for(item, lambda name: self._line.send(("making", name))):
            self._close_source()
            renew.one_thread()  # a fixture may have imported torch

    # -- ranks that are kept

    def _kept_for(self, request: Told) -> tuple[Ranks, str]:
        """Have the ranks of these tests run one; gives them, and what is to be said of them."""
        kept, note = self._kept, ""
        if kept is not None and kept.key == request["keep"]:
            if kept.are_well():
                return kept, ""
            kept.are_over(PATIENCE_WITH_KEPT)
            end = kept.group.end
            why = "; ".join(what_happened(each) for each in end.failures) if end else ""
            note = f"the ranks kept before were lost between two tests, these are new ({why})"
        self._end_kept()
        source = self._new_source(self._session)
        try:
            self._kept = self._start(request, source, request["keep"])
        except BaseException:
            source.close()
            raise
        return self._kept, note

    def _end_kept(self, by_themselves: bool = True) -> Told:
        """End the ranks that are kept, which then tear down what their tests have not."""
        kept, self._kept = self._kept, None
        if kept is not None:
            kept.close(PATIENCE_WITH_KEPT if by_themselves else 0.0)
            kept.source.close()
        return {}


def _line(name: str) -> str:
    """Make of the name of a test one that a group may have."""
    return "".join(c if c.isprintable() else "?" for c in name)
