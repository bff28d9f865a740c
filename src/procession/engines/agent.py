"""The agent: what an engine starts on each node. It runs the ranks of its node for a driver.

Theory of operation. An agent is `procession.group.Group`, the supervisor for one machine, at the
end of a link. The main thread runs an event loop for the link, heartbeats, signals and output; each
attempt has a group in a thread of its own, so that nothing that a group does delays a heartbeat.
All decisions that concern more than this node are the driver's.

The agent holds a lease on its driver. When the link ends, or nothing has come on it for the lease,
or (where an engine asks for that) standard input ends, it ends its ranks, with a second at the most
to obey, and goes. No engine ends ranks in time on a host that is cut off. If the agent itself is
killed, the forkserver ends the ranks: see `forkserver.server`.

Run as `python -m procession.engines.agent`, by engines only. Its exit code says nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import signal
import socket
import sys
import threading
import time
from collections.abc import MutableMapping

from procession.engines.contract import INVITATION, KEY, ON_STDIN, SLOT, EngineError
from procession.engines.link import Link
from procession.engines.plain import plain_group, plain_rank
from procession.engines.pump import Pump
from procession.engines.wire import Message
from procession.errors import GroupEnd, GroupFailed, Outcome, RankEnd
from procession.exit import Exit
from procession.group import Group
from procession.hangs import HANG_SECONDS
from procession.lastlook import MOST_SECONDS
from procession.lifecycle import Phase
from procession.spawner import planned_output
from procession.stacks import merge
from procession.system.eventloop import EventLoop
from procession.system.ports import free_port
from procession.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from procession.events import Event
    from procession.spec import Spec

CONNECT_SECONDS = 30.0  # for finding the driver
ADDRESS_SECONDS = 3.0  # for one address of it
ANSWER_SECONDS = 10.0  # for its answer there, when thousands come at the same time
LAST_GRACE = 1.0  # seconds that ranks have to obey when the driver is lost
WORKING = (Phase.STARTING, Phase.RUNNING)
TOLD = tuple(
    getattr(signal, name)
    for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGXCPU")
)


class Invitation(Value):
    """What an agent is told by its environment.

    at: addresses of the driver, as (host, port). key: shared with it. lease: seconds. slot: this
    agent's. on_stdin: whether it ends with its standard input.
    """

    at: tuple[tuple[str, int], ...]
    key: bytes
    lease: float
    slot: int
    on_stdin: bool = False

    def __repr__(self) -> str:
        """Show no key: it could come into a log, or a traceback with the values of variables."""
        return f"Invitation(at={self.at!r}, lease={self.lease:g}, slot={self.slot})"

    def variables(self) -> dict[str, str]:
        """Give the variables for an agent, but for its slot."""
        at = [list(each) for each in self.at]
        return {INVITATION: json.dumps({"at": at, "lease": self.lease}), KEY: self.key.hex()}


def take_invitation(env: MutableMapping[str, str]) -> Invitation:
    """Read the variables, and take them away from whoever is started next. Raises EngineError."""
    slot = env.pop(SLOT, None) or env.get("SLURM_PROCID", "0")
    text, key = env.pop(INVITATION, ""), env.pop(KEY, "")
    on_stdin = env.pop(ON_STDIN, "") == "1"
    try:
        said: dict[str, Any] = json.loads(text)
        at = tuple((str(host), int(port)) for host, port in said["at"])
        return Invitation(at, bytes.fromhex(key), float(said["lease"]), int(slot), on_stdin)
    except (ValueError, TypeError, KeyError):
        raise EngineError(
            f"{INVITATION} does not say where the driver is: agents are started by `procession run "
            "--engine`, not by hand"
        ) from None


class Agent:
    """Runs the ranks of one node. `run` returns when the driver has no use for it any more."""

    def __init__(self, invitation: Invitation) -> None:
        self._invitation = invitation
        self._loop = EventLoop()
        self._pump = Pump(self._loop, self._send_log)
        self._link: Link | None = None
        self._welcome = False
        self._over = False
        self._lost = ""
        self._cut = False  # what ranks of this attempt have written is not wanted any more
        self._work: _Work | None = None
        self._stderr = 2

    def run(self) -> int:
        """Find the driver, and do what it says until it says no more."""
        wakeup = _signals_wake(self._loop, self._signalled)
        self._stderr = self._pump.take_over()
        try:
            self._watch_stdin()
            if not self._connect():
                return 1
            self._watch_lease()
            while not self._over:
                self._loop.turn()
            return 1 if self._lost else 0
        finally:
            if self._link is not None:
                self._link.close()
            wakeup.close()
            self._pump.close()
            self._loop.close()

    def _say(self, text: str) -> None:
        """Tell whoever reads the engine's own log."""
        line = f"procession: agent on {os.uname().nodename}: {text}\n"
        with contextlib.suppress(OSError):
            os.write(self._stderr, line.encode(errors="backslashreplace"))

    # -- the driver

    def _connect(self) -> bool:
        ends = time.monotonic() + CONNECT_SECONDS
        fault = ""
        while time.monotonic() < ends and not self._over:
            refused = 0
            for host, port in self._invitation.at:
                try:
                    sock = socket.create_connection((host, port), ADDRESS_SECONDS)
                except OSError as e:
                    fault = f"{host}:{port}: {e.strerror or e}"
                    refused += isinstance(e, ConnectionRefusedError)
                    continue
                fault = self._greet(sock) or fault
                if self._welcome:
                    return True
            if refused == len(self._invitation.at):
                break  # it listens before any agent is started: it is gone
            self._pause(0.5)
        if not self._over:  # nobody wants it any more
            self._say(f"cannot reach the driver ({fault}); is a firewall between the nodes?")
        return False

    def _pause(self, seconds: float) -> None:
        passed: list[bool] = []
        self._loop.after("pause", seconds, lambda: passed.append(True))
        while not (passed or self._over):
            self._loop.turn()

    def _greet(self, sock: socket.socket) -> str:
        """Say who we are; gives why that was of no use, "" if it was."""
        faults: list[str] = []
        link = self._link = Link(
            self._loop, sock, self._invitation.key, "agent", self._take, faults.append
        )
        from procession import __version__

        link.send(
            "hello",
            {
                "slot": self._invitation.slot,
                "host": os.uname().nodename,
                "pid": os.getpid(),
                "version": __version__,
                "python": platform.python_version(),
            },
        )
        self._loop.after("greeting", ANSWER_SECONDS, lambda: link.lose("it does not answer"))
        while not (faults or self._welcome or self._over):
            self._loop.turn()
        self._loop.cancel("greeting")
        if faults:
            return faults[0]
        link.on_lost(self._lose)
        return ""

    def _watch_lease(self) -> None:
        lease = self._invitation.lease
        turned = time.monotonic()

        def look() -> None:
            nonlocal turned
            if self._link is None:
                return
            now = time.monotonic()
            # Who was stopped himself has not read what came: it is read before the next look.
            stalled, turned = now - turned > lease, now
            silent = now - self._link.heard_at
            if silent > lease and not stalled:
                self._link.lose(f"nothing has come for {silent:.1f} s")
            else:
                self._loop.after("lease", lease / 10, look)

        look()

    def _lose(self, why: str) -> None:
        """End the ranks, and this process: nobody knows of them any more."""
        if self._lost or self._over:
            return
        self._lost = f"the driver is lost: {why}"
        self._pump.give_up()
        if self._work is None:
            self._over = True
        else:
            self._say(f"{self._lost}; its ranks are ended")
            self._work.stop(grace=min(LAST_GRACE, self._work.spec.stop.grace))

    def _watch_stdin(self) -> None:
        if not self._invitation.on_stdin:
            return
        stdin = os.dup(0)
        null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        os.dup2(null, 0)
        os.close(null)

        def look() -> None:
            if not os.read(stdin, 4096):
                self._loop.forget(stdin)
                os.close(stdin)
                if self._link is not None and not self._link.closed:
                    self._link.lose("the engine let go of this agent")
                else:
                    self._over = True

        self._loop.watch(stdin, look)

    def _send(self, kind: str, fields: dict[str, Any], blob: bytes = b"") -> None:
        if self._link is not None:
            self._link.send(kind, fields, blob)

    def _send_log(self, stream: int, data: bytes) -> None:
        self._send("log", {"stream": stream}, data)

    def _signalled(self, number: int) -> None:
        """Somebody signals this node: the driver decides what it means for all."""
        if self._link is None or self._link.closed or not self._welcome:
            self._over = self._work is None
        else:
            self._send("signal", {"number": number})

    def _take(self, message: Message) -> None:
        fields = message.fields
        if message.kind == "welcome":
            self._welcome = True
        elif message.kind == "beat":
            now = time.monotonic_ns()
            active = self._work.share_activity(now, fields) if self._work is not None else 0
            self._send("pulse", {"at": fields["at"], "own": now, "active": active})
        elif message.kind == "credit":
            self._pump.more(int(fields["bytes"]))
        elif message.kind == "meet":
            self._meet(int(fields["attempt"]))
        elif message.kind == "launch":
            self._launch(fields, message.blob)
        elif message.kind == "stop":
            if self._work is not None:
                self._work.obey(fields)
            if fields.get("cut") or fields.get("kill"):
                self._cut = True  # else a console that does not read would hold up the end
                self._pump.give_up()
        elif message.kind == "signal":
            if self._work is not None:
                self._work.signal(int(fields["number"]), bool(fields.get("only_caught")))
        elif message.kind == "bye":
            self._over = True

    def _meet(self, attempt: int) -> None:
        assert self._link is not None
        address = self._link.address().removeprefix("::ffff:")
        self._send("met", {"attempt": attempt, "address": address, "port": free_port()})

    def _launch(self, fields: dict[str, Any], blob: bytes) -> None:
        self._cut = False
        self._work = _Work(self._loop, self._send, fields, blob, self._is_done)
        self._work.start()

    def _is_done(self, work: _Work) -> None:
        """Tell the driver the end of an attempt, when all that it has shown has been sent."""

        def tell() -> None:
            work.tell_end()
            self._work = None
            if self._lost:
                self._over = True

        if self._lost or self._cut:
            self._pump.give_up()
        self._pump.when_dry(tell)


class _Work:
    """The ranks of this node in one attempt."""

    def __init__(
        self,
        loop: EventLoop,
        send: Any,
        fields: dict[str, Any],
        blob: bytes,
        done: Any,
    ) -> None:
        import pickle

        from procession.rankenv import Node

        spec: Spec = pickle.loads(blob)  # from our driver: it has the key
        self.attempt = int(fields["attempt"])
        self.spec = spec.__replace__(node=Node(**fields["node"]))
        self._place = str(fields["place"])
        self._devices, self._gpus = str(fields["devices"]), int(fields["gpus"])
        self._loop = loop
        self._send = send
        self._done = done
        self._group: Group | None = None
        self._made = threading.Event()
        self._failed = False
        self._end: GroupEnd | None = None
        self._state = "FAILED"
        self._fault = ""
        self._stacks: list[dict[str, Any]] = []

    def start(self) -> None:
        threading.Thread(target=self._run, name="procession", daemon=True).start()

    def _run(self) -> None:
        try:
            self.spec = self._with_devices()
            output = planned_output(self.spec, self._place)
            group = self._group = Group(self.spec, output, on_event=self._on_event, control=True)
            if self.spec.hang.silence is not None and self.spec.node.count > 1:
                group.share_activity(time.monotonic_ns())
            group.drain_patiently()
            self._made.set()
            group.drive()
            self._conclude(group)
        except GroupFailed as e:
            self._end = e.end
        except Exception as e:
            self._fault = f"{type(e).__name__}: {e}"
        finally:
            self._made.set()
            self._loop.request(lambda: self._done(self))

    def _with_devices(self) -> Spec:
        """Give each rank its own of the devices that the engine gave this node."""
        if not self._devices and not self._gpus:
            return self.spec
        from procession.devices import deal, deal_shares

        if self._devices:
            return deal(self.spec, self._devices)
        return deal_shares(self.spec, self._gpus)

    def _conclude(self, group: Group) -> None:
        self._end, self._state = group.end, group.state.name
        self._stacks = group.stacks_of_failure() or self._stacks
        if self._end is None:
            self._fault = "its supervisor failed"
            group.result()

    def _on_event(self, event: Event) -> None:
        """Tell at once what concerns others; in the supervisor's thread."""
        if event.rank is not None or self._group is None:
            return
        if event.kind == "running":
            self._tell("ready", {})
        failure = self._group.failure
        if failure is not None and not self._failed:
            self._failed = True
            self._tell("failed", {"end": plain_rank(failure)})

    def _tell(self, kind: str, fields: dict[str, Any], blob: bytes = b"") -> None:
        self._loop.request(lambda: self._send(kind, {"attempt": self.attempt, **fields}, blob))

    def stop(self, **how: Any) -> None:
        """Stop the ranks; returns at once."""

        def take() -> None:
            self._made.wait()
            if self._group is not None:
                self._group.stop(wait=False, **how)

        threading.Thread(target=take, name="procession-stop", daemon=True).start()

    def obey(self, fields: dict[str, Any]) -> None:
        """Stop as the driver says: kill, signal, grace, notice; failed: others have failed."""
        if int(fields["attempt"]) != self.attempt:
            return
        how = {name: fields[name] for name in ("signal", "grace", "notice") if name in fields}

        def take() -> None:
            self._made.wait()
            group = self._group
            if group is None:
                return
            if fields.get("kill"):
                group.kill(wait=False)
                return
            if fields.get("failed"):
                if group.state in WORKING and self.spec.hang.stacks:
                    hung = bool(fields.get("hung"))
                    self._stacks = group.stacks(HANG_SECONDS if hung else MOST_SECONDS)
                if group.state not in WORKING:
                    return  # it has failed, too, and takes its own stacks before it ends its ranks
            group.stop(wait=False, **how)

        threading.Thread(target=take, name="procession-stop", daemon=True).start()

    def share_activity(self, now: int, fields: dict[str, Any]) -> int:
        """Take from a heartbeat when ranks elsewhere wrote last; gives when those here did."""
        if self._group is None or "quiet" not in fields:
            return 0
        return self._group.share_activity(now - int(fields["quiet"]))

    def signal(self, number: int, only_caught: bool) -> None:
        """Send every rank a signal."""
        if self._group is not None:
            for rank in range(self.spec.nproc):
                self._group.send_signal(rank, number, only_caught=only_caught)

    def tell_end(self) -> None:
        """Tell how the attempt ended on this node: values first, then the rest."""
        if self._group is not None and self._state == "SUCCEEDED":
            for rank, body in self._group.values_told().items():
                try:
                    self._send("value", {"attempt": self.attempt, "rank": rank}, body)
                except ValueError as e:
                    self._too_large(rank, str(e))
        end = self._end or self._not_started()
        first = self.spec.node.first(self.spec.nproc)
        stacks = merge.together(merge.from_dict(each, first) for each in self._stacks)
        told: dict[str, Any] = {}
        if self._group is not None:
            told = {str(rank): record for rank, record in self._group.errors_told().items()}
        self._send(
            "ended",
            {
                "attempt": self.attempt,
                "state": self._state,
                "end": plain_group(end),
                "stacks": [{"said": each.said, "ranks": each.ranks} for each in stacks],
                "told": told,
            },
        )

    def _too_large(self, rank: int, why: str) -> None:
        """Make a failure of a rank whose value cannot be sent."""
        assert self._end is not None
        self._state = "FAILED"
        (end,) = (each for each in self._end.finished if each.rank == rank)
        failed = end.__replace__(
            outcome=Outcome.UNPICKLABLE, type_name="value", message=f"it is too large: {why}"
        )
        others = tuple(each for each in self._end.finished if each.rank != rank)
        failures = (*self._end.failures, failed)
        self._end = self._end.__replace__(failures=failures, finished=others)

    def _not_started(self) -> GroupEnd:
        cause = RankEnd(
            rank=0,
            pid=None,
            outcome=Outcome.NOT_STARTED,
            exit=Exit(),
            message=f"could not be started: {self._fault.removeprefix('SpecError: ')}",
            happened_at=time.monotonic_ns(),
        )
        return GroupEnd(self.spec.name, self.spec.nproc, failures=(cause,))


class _signals_wake:  # noqa: N801 - a function whose result is to be closed
    """Calls `take` in the loop's thread, the main one, for each signal that comes."""

    def __init__(self, loop: EventLoop, take: Any) -> None:
        self._loop = loop
        self._read, self._write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._came: list[int] = []
        self._take = take
        for number in TOLD:
            signal.signal(number, lambda n, _: self._came.append(n))
        loop.watch(self._read, self._look)
        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)

    def _look(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._read, 4096)
        while self._came:
            self._take(self._came.pop(0))

    def close(self) -> None:
        signal.set_wakeup_fd(-1)
        self._loop.forget(self._read)
        os.close(self._read)
        os.close(self._write)


def main() -> int:
    """Be an agent; gives an exit code that says nothing."""
    try:
        invitation = take_invitation(os.environ)
    except EngineError as e:
        print(f"procession: {e}", file=sys.stderr)
        return 2
    return Agent(invitation).run()


if __name__ == "__main__":
    sys.exit(main())
