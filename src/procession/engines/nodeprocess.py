"""The node process: what an engine starts on each node. It runs the ranks of its node for a driver.

Theory of operation. A node process runs the ranks of one machine, at the end of a link. The
main thread runs an event loop for the link, heartbeats, signals, output and ranks (`noderun`); what
may take long is done in a thread, so that it delays no heartbeat. All decisions that concern more
than this node are the driver's.

The node process holds a lease on its driver. When the link ends, or nothing has come on it for the
time of the lease, or (where an engine asks for that) standard input ends, the node process ends its
ranks, kills those that do not obey in time, and exits. It needs no help for that: on a host that is
cut off, no engine could end ranks in time. If this process itself is killed, the agent ends
them: see `agent.server`.

How long ranks have to obey then: the driver may live, and go on with other nodes soon, and nobody
can know that here. So it is a second at most, unless the driver has said that this attempt is the
last one, whatever happens: then nobody waits for the end of these ranks, and they have their whole
grace period. Where an engine holds a node process by its standard input, it is always a second,
since such an engine kills what does not end.

Run by engines as `contract.NODE_PROCESS`; its exit code has no meaning. Where a launcher was
started on each node, the node process is a part of it (see `ownnode`): it runs what its own
launcher was asked for, never unpickles anything, and keeps the last words of the driver for the
launcher.
"""

from __future__ import annotations

import contextlib
import os
import platform
import signal
import socket
import sys
import time
from typing import Any, NoReturn

from procession.engines.addresses import interface_of, say_interfaces, unset
from procession.engines.connecting import connect, waited
from procession.engines.contract import EngineError, Invitation, take_invitation
from procession.engines.link import NodeLink, watch_lease
from procession.engines.noderun import NodeRun
from procession.engines.ownnode import OwnNode
from procession.engines.pump import Pump
from procession.engines.signalled import WokenBySignals
from procession.engines.will import Will, read_will
from procession.engines.wire import Message, Piece
from procession.system.eventloop import EventLoop
from procession.system.ports import free_port
from procession.system.threads import Errands
from procession.values.policy import StopRequest

CONNECT_SECONDS = 30.0  # for finding the driver
ANSWER_SECONDS = 10.0  # for its answer, when thousands of node processes come at the same time
LAST_TRY_SECONDS = 1.0  # for a try that begins just before the time for finding it is over
PAUSE = 0.5  # seconds between two tries to find the driver
SURE = 1.5  # leases until both sides of a network that was cut have noticed it
PATIENCE = 1.0  # seconds after a signal until it is said that ranks are still being ended
LAST_GRACE = 1.0  # seconds that ranks have to obey when the driver is lost
TOLD = tuple(
    getattr(signal, name)
    for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGXCPU")
)


class NodeProcess:
    """Runs the ranks of one node. `run` returns when the driver has no use for it any more.

    own: what it knows where it is a part of this node's launcher. last_words: of the driver, {} if
    there were none. signalled: the last signal that came, 0 for none. will: what the driver has
    told in advance, for the time when it is lost; None before the first attempt. joined: whether
    the driver has taken this node. lost: why the driver is lost, or was not found; "" if neither.
    sent_away: why somebody who answered did not take this node, the last time; "" if nobody did so.
    """

    def __init__(self, invitation: Invitation, own: OwnNode | None = None) -> None:
        self._invitation = invitation
        self.own = own
        self.last_words: dict[str, Any] = {}
        self.signalled = 0
        self.will: Will | None = None
        self._lease = 0.0  # the driver says it
        self._loop = EventLoop()
        self._pump = Pump(self._loop, self._send_log)
        self._link: NodeLink | None = None
        self.joined = False
        self._over = False
        self.lost = ""
        self.sent_away = ""
        self._late = False
        self._cut = False  # the output of this attempt is not wanted any more
        self._last = False  # no other attempt follows this one, whatever happens
        self._hurried = False
        self._attempt: NodeRun | None = None
        self._disk = Errands("procession-disk")
        self._disk.on_fault = self._loop.fail
        self._stderr = 2

    def stop_job(self) -> None:
        """Have the driver stop the job, or go on without this machine; from any thread."""
        self._loop.request(lambda: self._signalled(signal.SIGINT))

    def let_go(self) -> None:
        """Have it end as if its driver were lost; from any thread."""

        def lose() -> None:
            self._last = False
            self._lose("it is not wanted any more")

        self._loop.request(lose)

    def run(self) -> int:
        """Find the driver, and do what it says until the job is over."""
        told = TOLD if self.own is None else self.own.signals
        wakeup = WokenBySignals(self._loop, self._signalled, told)
        if self.own is None:
            self._stderr = self._pump.take_over()
        try:
            self._watch_stdin()
            if not self._connect():
                return 0 if self._late else 1
            if self._link is not None:
                watch_lease(self._loop, self._link, self._lease)
            while not self._over:
                self._loop.turn()
            return 1 if self.lost else 0
        except Exception as e:
            self._tell_crash(e)
            return 1
        finally:
            if self._link is not None:
                self._link.close()
            if self._attempt is not None:
                self._attempt.close()
            self._disk.end()
            wakeup.close()
            self._pump.close()
            self._loop.close()

    def _tell_crash(self, e: Exception) -> None:
        """Report a bug of our own: in one line to the driver, in full to the engine's log."""
        import traceback

        self._say(f"it failed:\n{''.join(traceback.format_exception(e))}".rstrip())
        with contextlib.suppress(Exception):
            self._send("leaving", {"crashed": f"{type(e).__name__}: {e}"})

    def _say(self, text: str) -> None:
        """Write a line to the engine's own log."""
        if self.own is not None:
            self.own.say(text)
            return
        line = f"procession: node process on {os.uname().nodename}: {text}\n"
        with contextlib.suppress(OSError):
            os.write(self._stderr, line.encode(errors="backslashreplace"))

    # -- the driver

    def _connect(self) -> bool:
        own = self.own
        ends = time.monotonic() + (CONNECT_SECONDS if own is None else own.patience)
        fault = ""
        while time.monotonic() < ends and not self._over:
            refused = 0
            for host, port in self._invitation.at:
                left = max(LAST_TRY_SECONDS, ends - time.monotonic())
                try:
                    sock = connect(self._loop, host, port, left, lambda: self._over)
                except OSError as e:
                    if self._over:
                        break
                    fault = f"{host}:{port}: {e.strerror or e}"
                    refused += isinstance(e, ConnectionRefusedError)
                    continue
                try:
                    answer = ANSWER_SECONDS if own is None else min(own.answer, left)
                    fault = self._greet(sock, self._introduced(sock), answer) or fault
                except (OSError, EngineError) as e:
                    sock.close()
                    fault = str(e)
                if self.joined:
                    return True
                self.sent_away = fault
            if refused == len(self._invitation.at) and own is None:
                # The driver listens before any node process is started: so it is gone. How the job
                # ended is its to say, by its own exit code.
                self._late = True
                break
            if own is not None and own.waits(fault):
                break
            again = time.monotonic() + PAUSE
            while not self._over and (left := again - time.monotonic()) > 0:
                self._loop.turn(left)
        if not self._over and own is not None:
            self.lost = fault or "nobody listens there"
        elif not self._over:  # else the job has ended meanwhile
            over = "the job is over, or " if self._late else ""
            self._say(
                f"cannot reach the driver ({fault}); {over}is a firewall between the nodes, or is "
                "another version of procession here? [P213]"
            )
        return False

    def _introduced(self, sock: socket.socket) -> bytes:
        """Give the key of a link, from an introduction if there is one."""
        learns = self.own.learns if self.own is not None else None
        if learns is None:
            return self._invitation.key
        return waited(self._loop, lambda: learns(sock), ANSWER_SECONDS, lambda: self._over)

    def _greet(self, sock: socket.socket, key: bytes, patience: float) -> str:
        """Introduce this node process to the driver; gives why that failed, "" if it did not.

        patience: seconds to wait for an answer.
        """
        faults: list[str] = []
        link = self._link = NodeLink(
            self._loop, sock, key, "agent", self._take_message, faults.append
        )
        from procession.values.version import __version__

        link.send(
            "hello",
            {
                "slot": self._invitation.slot,
                "host": os.uname().nodename,
                "pid": os.getpid(),
                "version": __version__,
                "python": platform.python_version(),
                **(self.own.greeting if self.own is not None else {}),
                "interface": interface_of(link.address()),
                **self._as_heir(link),
            },
        )
        # It may also come in the turn in which its time is over.
        self._loop.after("greeting", patience, lambda: self.joined or link.lose("no answer"))
        while not (faults or self.joined or self._over):
            self._loop.turn()
        self._loop.cancel("greeting")
        link.lost = self._lose
        if self.joined and faults:
            self._lose(faults[0])  # nothing tells of it again
        return "".join(faults[:1])

    def _as_heir(self, link: NodeLink) -> dict[str, Any]:
        """Say how others find this launcher if it takes over."""
        if self.own is None or self.own.heir is None:
            return {}
        name, port, hosts, lost_at = self.own.heir
        wait = max(0.0, lost_at - time.monotonic())
        return {"heir": [name, os.uname().nodename, self._own_address(link), port, hosts, wait]}

    def _own_address(self, link: NodeLink) -> str:
        address = self.own.address if self.own is not None else ""
        return address or link.address().removeprefix("::ffff:")

    def _lose(self, why: str) -> None:
        """End the ranks and this process: the driver is lost."""
        if self.lost or self._over:
            return
        self.lost = f"the {'driver' if self.own is None else 'host'} is lost: {why}"
        if self.will is not None and self._link is not None:
            # When the driver has noticed, too, that this node is lost: see `rules.quorum`.
            silent = 0.0 if self._link.closed_there else SURE * self._lease
            since = self._link.heard_at if silent else time.monotonic()
            self.will = self.will.__replace__(lost_at=since + silent)
        self._pump.give_up()
        if self._attempt is None:
            self._over = True
        else:
            self._say(f"{self.lost}; its ranks are ended [P419]")
            grace = min(LAST_GRACE, self._attempt.spec.stop.grace)
            hurried = StopRequest(grace=grace, notice=0.0)
            self._attempt.end(StopRequest() if self._last else hurried)

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
                    self._link.lose("the engine let go of this node process")
                else:
                    self._over = True

        self._loop.watch(stdin, look)

    def _send(self, kind: str, fields: dict[str, Any], blob: Piece = b"") -> None:
        if self._link is not None:
            self._link.send(kind, fields, blob)

    def _send_log(self, stream: int, data: bytes) -> None:
        self._send("log", {"stream": stream}, data)

    def _signalled(self, number: int) -> None:
        """Pass on a signal that this process got: the driver decides what it means for the job.

        again: a person wants to end it, and not for the first time.
        """
        again = self.own is not None and self.own.hears_again(number, self.signalled)
        self.signalled = number
        if self._link is None or self._link.closed or not self.joined:
            if self._attempt is None:
                self._over = True
            elif self._hurried:
                self._attempt.end(StopRequest(kill=True))
            else:
                self._explain(number)
                self._hurried = True
        else:
            self._send("signal", {"number": number, "again": again})
            if self.own is not None and self.own.ends_at(number):
                self._loop.after("explain", PATIENCE, lambda: self._explain(number))

    def _explain(self, number: int) -> None:
        if self._attempt is not None:
            name = signal.Signals(number).name
            self._say(f"{name}: waiting for ranks to end; once more kills them [P412]")

    def _take_message(self, message: Message) -> None:
        fields = message.fields
        if message.kind == "welcome":
            self.joined, self._lease = True, max(1.0, float(fields["lease"]))
            if self.own is not None:
                self.own.adopt(fields["numbers"], self._lease)
        elif message.kind == "beat":
            now = time.monotonic_ns()
            active = self._attempt.share_activity(now, fields) if self._attempt is not None else 0
            self._send("pulse", {"at": fields["at"], "own": now, "active": active})
        elif message.kind == "credit":
            self._pump.more(int(fields["bytes"]))
        elif message.kind == "say" and self.own is not None:
            self.own.hears(str(fields["text"]))
        elif message.kind == "meet":
            self._meet(int(fields["attempt"]))
        elif message.kind == "launch":
            self._launch(fields, message.blob)
        elif message.kind == "stop":
            if self._attempt is not None:
                self._attempt.obey(fields)
            if fields.get("cut") or fields.get("kill"):
                self._cut = True  # else a console that does not read would delay the end
                self._pump.give_up()
        elif message.kind == "signal" and self._attempt is not None:
            self._attempt.signal(fields)
        elif message.kind == "debug" and self._attempt is not None:
            self._attempt.debug(fields, bytes(message.blob))
        elif message.kind == "debugged" and self._attempt is not None:
            self._attempt.debugged(debugs=bool(fields["debugs"]))
        elif message.kind == "decided" and self._attempt is not None:
            self._attempt.take_decision(fields)
        elif message.kind == "ask" and self._attempt is not None:
            self._attempt.answer(fields)
        elif message.kind == "ask":
            self._send("answer", {"id": fields["id"], "value": None})
        elif message.kind == "bye" and fields.get("later") and self._link is not None:
            self._link.lose("no node is wanted now")
        elif message.kind == "bye":
            self.last_words = fields
            if fields.get("why") and self.own is None:
                self._say(str(fields["why"]))
            self._over = True

    def _meet(self, attempt: int) -> None:
        assert self._link is not None
        port = self.own.meets[1] if self.own is not None else 0
        address = self._own_address(self._link)
        self._send("met", {"attempt": attempt, "address": address, "port": port or free_port()})

    def _launch(self, fields: dict[str, Any], blob: bytes | bytearray) -> None:
        self._cut = False
        self._last = bool(fields.get("last")) and not self._invitation.on_stdin
        if self.own is not None:
            self.will = read_will(fields.get("will"))
            self.own.tell_once(say_interfaces(self.own.spec, [str(fields["interface"])], unset()))
        around = self._is_done, self._invitation.copied, self.own, self._disk
        self._attempt = NodeRun(self._loop, self._send, fields, blob, *around)
        self._attempt.start()

    def _is_done(self, attempt: NodeRun) -> None:
        """Report the end of an attempt to the driver, after all output has been sent."""

        def tell() -> None:
            attempt.tell_end()
            attempt.close()
            self._attempt = None
            if self.lost:
                self._over = True

        if self.lost or self._cut:
            self._pump.give_up()
        self._pump.when_dry(tell)


def command() -> NoReturn:
    """Run the node process, as an engine starts it.

    It leaves without the end of its interpreter, for which the driver would have to wait.
    """
    os._exit(main())


def main() -> int:
    """Run the node process; gives an exit code without meaning."""
    try:
        invitation = take_invitation(os.environ)
    except EngineError as e:
        print(f"procession: {e}", file=sys.stderr)
        return 2
    return NodeProcess(invitation).run()
