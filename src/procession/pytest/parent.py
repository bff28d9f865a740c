"""pytest's own process: it launches a group for each test in ranks, and reports what came of it.

Theory of operation. It is a launcher like any other: each test is a group (`procession.group`),
whose ranks are forks of an agent, which is a fork of the spare (`spare`). The agent is kept from
test to test, and made anew only when it was lost. Ranks that are kept for several tests have one of
their own. Ranks talk to this process while they run (`grouptalk`): what each phase of the test came
to, as soon as it has; the values of `gather`. A rank that fails its test says so and goes on to its
teardown; the others have some time to come to their own end, then it is noted where they are, and
they are ended. A rank that ends otherwise (a signal, `os._exit`) is a failure of its group, as
anywhere in procession.
"""

from __future__ import annotations

import os
import secrets
import select
from contextlib import nullcontext

import pytest

from procession.explain.report import what_happened
from procession.pytest import fresh, sharedfixtures, spawned
from procession.pytest.grouptalk import LINGER, GroupTalk
from procession.pytest.inrank import DOOR
from procession.pytest.keeping import following, key_of
from procession.pytest.marks import Asked
from procession.pytest.ranks import RanksOfTests
from procession.pytest.reporting import Reporting, warn
from procession.pytest.slots import slots_of
from procession.pytest.spare import Spare
from procession.system.processes import is_dying
from procession.values.errors import GroupFailed, ProcessionError
from procession.values.policy import Hang, Logs, Stop
from procession.values.spec import make_spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from procession.agent.client import Agent

    Told = dict[str, Any]

GRACE = 1.0  # seconds from SIGTERM to SIGKILL, for ranks that are ended
LOOK = 2.0  # seconds between two looks at an agent that says nothing
PATIENCE_WITH_KEPT = 10.0  # seconds that these have to tear down what their tests share


class Parent(Reporting):
    """Runs the marked tests of a session in ranks."""

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self._owner = os.getpid()
        # What ranks have, whatever tests without ranks have changed here.
        self._variables, self._directory = dict(os.environ), os.getcwd()
        self._agent: Agent | None = None  # what ranks of one test are forked from
        self._made: set[Any] = set()  # the shared fixtures that it has made
        self._kept: RanksOfTests | None = None
        self._slots = slots_of(session.config)
        for item in self._limits:
            _ = item.location  # pytest keeps it; otherwise each rank would have to find it
        self._spare = Spare(session) if self._limits else None
        if self._config.getoption("--ranks-template"):
            spawned.begin_forking()
        for item in self._limits:
            self._stand_in(item)

    # -- a test

    def _asked(self, item: Any, request: Told) -> Told:
        try:
            with self._slots.held(request["nproc"]) if self._slots else nullcontext():
                return self._run_in_ranks(item, request)
        except GroupFailed as e:
            return {"fault": str(e)}
        except (ProcessionError, OSError) as e:
            return {"fault": f"the ranks could not be started: {e}"}

    def _request(self, item: Any, asked: Asked) -> Told:
        request = super()._request(item, asked)
        key = key_of(item)
        files = f"{request['tmp']}-files"
        return {
            **request,
            "files": files,
            "store": os.path.join(files, "store"),
            "keep": key,
            "next": None if key is None else following(key, item.session, self._after),
        }

    def _run_in_ranks(self, item: Any, request: Told) -> Told:
        """Have ranks run a test; gives what came of it."""
        kept = request["method"] == "keep"
        ranks = self._kept_for(item, request) if kept else self._started(item, request)
        talk = GroupTalk(ranks, request, self._config)
        broken = "unknown"
        try:
            ranks.run(request)
            came = talk.held()
            broken = came.get("renewed", "")
            if "fault" not in came:
                ranks.group.wait_started()
            return came
        except GroupFailed:
            raise
        except BaseException as e:
            self._interrupted = (item.nodeid, talk.interrupted())
            if isinstance(e, KeyboardInterrupt) and self._config.getoption("usepdb"):
                # There is nothing to be debugged in this process, which only waits.
                raise pytest.exit.Exception("Interrupted", pytest.ExitCode.INTERRUPTED) from None
            raise
        finally:
            if not kept:
                ranks.close()
            elif broken or request["next"] is None:
                self._end_kept(by_themselves=not broken)

    def _started(self, item: Any, request: Told) -> RanksOfTests:
        """Start ranks that wait for a test, or if they are kept, for several."""
        server, args = None, ()
        method = request["method"]
        if method == "spawn":
            # Of a file outside the root directory, the name of a test does not have the path.
            where = f"{item.path}::{item.nodeid.partition('::')[2]}"
            args = (fresh.options_of(item.config), where, item.nodeid, request["item"])
        else:
            server = self._agent_for(item, request["item"], kept=method == "keep")
        door = f"procession-pytest-{secrets.token_hex(16)}"
        changed = dict(self._variables.items() ^ os.environ.items())
        spec = make_spec(
            fresh.run if method == "spawn" else _nothing,
            nproc=request["nproc"],
            args=args,
            env={**{name: self._variables.get(name) for name in changed}, DOOR: door},
            cwd=self._directory,
            name=os.path.basename(request["tmp"]),
            start_method="spawn" if method == "spawn" else "fork",
            stop=Stop(grace=GRACE, patience=GroupTalk.PATIENCE, linger=LINGER),
            hang=Hang(start=60.0),
            logs=Logs() if self._config.getoption("capture") == "no" else Logs(ranks=()),
        )
        return RanksOfTests(spec, door, request["files"], server, request["keep"])

    # -- what ranks come from

    def _agent_for(self, item: Any, number: int, *, kept: bool) -> Agent:
        """Give an agent that has made the shared fixtures of a test. number: of that test.

        kept: it is for ranks that are kept.
        """
        agent, needed = self._agent, {*sharedfixtures.needed_by(item).values()}
        if kept or agent is None or agent.lost:
            assert self._spare is not None
            agent = self._spare.agent()
            self._share(agent, item, number)
            if not kept:
                self._agent, self._made = agent, needed
        elif needed - self._made:
            self._share(agent, item, number)
            self._made |= needed
        return agent

    def _share(self, agent: Agent, item: Any, number: int) -> None:
        """Have an agent make shared fixtures. Raises ProcessionError if one has ended it."""
        making = ""
        try:
            agent.send(("share", number), [], [])
            while not agent.lost:
                select.select([agent], [], [], LOOK)
                agent.wake()  # somebody may have stopped it
                # What it has forked may have a copy of its end.
                dead = is_dying(agent.pid)
                for kind, name in _told_by(agent):
                    making = name
                    if kind == "shared":
                        return
                agent.lost = agent.lost or dead
        except BaseException:
            making = "".join(name for _, name in _told_by(agent)[-1:]) or making
            # What was being read when it was interrupted is lost.
            if said := making or ", ".join(sharedfixtures.needed_by(item)):
                self._interrupted = item.nodeid, f"the shared fixture {said} was being made"
            agent.kill()
            raise
        agent.close()
        what = f"the shared fixture {making}" if making else "somebody"
        raise ProcessionError(f"{what} has ended the process that ranks are forked from")

    # -- ranks that are kept

    def _kept_for(self, item: Any, request: Told) -> RanksOfTests:
        """Give the ranks that run this test and others."""
        kept = self._kept
        if kept is not None and kept.key == request["keep"]:
            if kept.are_well():
                return kept
            kept.are_over(PATIENCE_WITH_KEPT)
            end = kept.group.end
            why = "; ".join(what_happened(each) for each in end.failures) if end else ""
            said = f"the ranks kept before were lost between two tests, these are new ({why})"
            warn(pytest.PytestWarning(said), str(item.path), 0)
        self._end_kept()
        self._kept = self._started(item, request)
        return self._kept

    def _end_kept(self, by_themselves: bool = True) -> None:
        """End the ranks that are kept, which then tear down what their tests have not."""
        kept, self._kept = self._kept, None
        if kept is not None:
            agent = kept.link.server
            kept.close(PATIENCE_WITH_KEPT if by_themselves else 0.0)
            agent.close()

    # -- hooks

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """End the processes that tests came from."""
        if os.getpid() != self._owner:
            return  # a test has forked this process
        self._end_kept()
        agent, self._agent = self._agent, None
        if agent is not None:
            agent.close()
        spawned.end()
        spare, self._spare = self._spare, None
        if spare is not None:
            spare.close()


def _told_by(agent: Agent) -> list[tuple[Any, ...]]:
    """Take what an agent has told that makes shared fixtures."""
    return [each for messages, _ in agent.receive() for each in messages]


def _nothing() -> None:
    """Stand for what the ranks of an agent call that has it in its memory."""
