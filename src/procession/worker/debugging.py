"""The conversation between `pdb` in a rank and whoever debugs it, over a socket.

The rank makes the socket at its first stop and passes the other end over its outcome channel; it
stays to the end of the rank. Both ends send JSON objects, each in a line. The rank:

    {"stopped": {"where": "train.py:41", "why": "breakpoint"}}   before its prompt
    {"out": text}         what `pdb` prints
    {"ask": prompt}       it waits for a line
    {"names": [text]}     answers "complete"
    {"goes_on": true}     it is not stopped any more

Whoever debugs it, first of all:

    {"welcome": true}
    {"refused": text}     why nobody can

and while it waits:

    {"line": text}
    {"complete": [line, begin, end]}    what could stand between these two places
    {"end": true}         no line: the end of a file
"""

from __future__ import annotations

import json
import os
import socket
import sys

from procession.worker import outcome

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_OURS = os.path.dirname(__file__) + os.sep
MOST_NAMES = 500
_talk: Talk | None = None


def talk_of(debugger: Any) -> Talk:
    """Give the streams of a debugger. Raises RuntimeError if this process cannot be debugged."""
    global _talk
    if _talk is None or _talk.pid != os.getpid():
        ours, theirs = socket.socketpair()
        with theirs:
            why = outcome.pass_debugger(theirs.fileno())
        talk = Talk(ours)
        why = why or talk.refusal()
        if why:
            ours.close()
            raise RuntimeError(f"this process cannot be debugged: {why}")
        _talk = talk
    _talk.debugger = debugger
    return _talk


def halt(frame: Any) -> None:
    """Stop a rank that runs, or what it does for its debugger."""
    import pdb

    if _talk is not None and _talk.pid == os.getpid() and _talk.busy:
        raise KeyboardInterrupt
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back  # another handler of ours
    debugger: Any = pdb.Pdb()
    debugger.stdin.why = "halted"
    debugger.set_trace(frame)


def post_mortem(e: BaseException) -> None:
    """Have an exception of the program debugged where it was raised."""
    import pdb
    import traceback

    tb = e.__traceback__
    while tb is not None and tb.tb_frame.f_code.co_filename.startswith(_OURS):
        tb = tb.tb_next
    try:
        debugger: Any = pdb.Pdb()
        (said, *_) = traceback.format_exception_only(e)[-1].strip().splitlines()
        debugger.stdin.why = f"post-mortem: {said}"
        debugger.reset()
        debugger.interaction(None, tb)
    except Exception as error:  # the exception of the program is what counts
        print(f"procession: no post-mortem: {error}", file=sys.stderr)


class Talk:
    """Standard input and output of `pdb`.

    pid: the process that has it. debugger: the last one. why: it stops next, if that is known.
    """

    encoding = "utf-8"

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self.pid = os.getpid()
        self.debugger: Any = None
        self.why = ""
        self._stopped = False
        self._text = ""  # not sent yet
        self._heard = b""

    def refusal(self) -> str:
        """Wait for the launcher; gives why it does not want to talk, or ""."""
        said = self._hear_next() or {"refused": "the launcher is gone"}
        return str(said.get("refused", ""))

    @property
    def busy(self) -> bool:
        """Whether `pdb` waits for a line, or obeys one."""
        return bool(getattr(self.debugger, "allow_kbdint", False))

    def write(self, text: str) -> int:
        """Take output; it waits for the end of its line, and for the place to be known."""
        self._text += text
        if self._stopped or getattr(self.debugger, "stack", None):
            self._tell_lines()
        return len(text)

    def _tell_lines(self) -> None:
        lines, newline, self._text = self._text.rpartition("\n")
        if newline:
            self._stop()
            self._send({"out": lines + newline})

    def flush(self) -> None:
        """Do nothing: lines are sent at once."""

    def isatty(self) -> bool:
        """Whether this is a terminal."""
        return False

    def readline(self, _size: int = -1) -> str:
        """Ask for a line; "" if there is none any more."""
        self._stop()
        self._tell_lines()
        prompt, self._text = self._text, ""
        self._send({"ask": prompt})
        while (said := self._hear_next()) is not None:
            if "line" in said:
                return f"{said['line']}\n"
            if "complete" in said:
                self._send({"names": self._names(*said["complete"])})
            elif "end" in said:
                break
        return ""

    def goes_on(self) -> None:
        """Tell that the program goes on."""
        if self._text and self._stopped:
            self.write("\n")
        self._text = ""
        if self._stopped:
            self._stopped = False
            self._send({"goes_on": True})

    def _stop(self) -> None:
        """Tell where the program has stopped, unless that was told."""
        if self._stopped:
            return
        self._stopped = True
        stack = getattr(self.debugger, "stack", None)
        began = getattr(self.debugger, "botframe", None)
        frame, line = stack[self.debugger.curindex] if stack else (None, 0)
        where = f"{os.path.basename(frame.f_code.co_filename)}:{line}" if frame else ""
        why = self.why or ("breakpoint" if began else "post-mortem")
        self._send({"stopped": {"where": where, "why": why}})
        self.why = ""

    def _send(self, said: dict[str, Any]) -> None:
        try:
            self._socket.sendall(json.dumps(said).encode() + b"\n")
        except OSError:
            pass  # the launcher is gone, and so is this rank in a moment

    def _hear_next(self) -> dict[str, Any] | None:
        while b"\n" not in self._heard:
            try:
                data = self._socket.recv(1 << 16)
            except OSError:
                data = b""
            if not data:
                return None
            self._heard += data
        line, _, self._heard = self._heard.partition(b"\n")
        return json.loads(line)

    def _names(self, line: str, begin: int, end: int) -> list[str]:
        """Say what could stand in a line, as `cmd` would find it."""
        text, debugger = line[begin:end], self.debugger
        try:
            if begin:
                command = debugger.parseline(line)[0]
                finds = getattr(debugger, f"complete_{command}", debugger.completedefault)
            else:
                finds = debugger.completenames
            return [str(name) for name in finds(text, line, begin, end)][:MOST_NAMES]
        except Exception:  # of objects of the program
            return []
