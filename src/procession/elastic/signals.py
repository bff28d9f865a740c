"""Signals of the launcher that are raised as `SignalException` while it has ranks."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from types import FrameType
from typing import Any

logger = logging.getLogger("procession.elastic.api")

_SIGNALS = "SIGTERM,SIGINT,SIGHUP,SIGQUIT"
_TORCHS = "torch.distributed.elastic.multiprocessing.api"


class SignalException(Exception):
    """A signal that came while this process had ranks. sigval: the signal."""

    def __init__(self, msg: str, sigval: signal.Signals) -> None:
        Exception.__init__(self, msg)  # whichever class stands beside this one
        self.sigval = sigval


def raise_signal(signum: int, frame: FrameType | None) -> None:
    """Raise SignalException."""
    sigval = signal.Signals(signum)
    raise _signal_exception()(f"Process {os.getpid()} got signal: {sigval}", sigval=sigval)


def _signal_exception() -> type[SignalException]:
    """Give the class to raise: a subclass of torch's as well, where torch is loaded.

    torch's agent may be waiting for our ranks, and it catches its own class.
    """
    theirs: Any = getattr(sys.modules.get(_TORCHS), "SignalException", SignalException)
    if issubclass(SignalException, theirs):
        return SignalException
    made: Any = type("SignalException", (SignalException, theirs), {})
    return made


def let_signals_raise() -> dict[int, Any]:
    """Have signals raise, in the main thread; give what those did before that did not raise yet."""
    before: dict[int, Any] = {}
    if threading.current_thread() is not threading.main_thread():
        logger.warning(
            "started in another thread than the main one: signals do not raise SignalException"
        )
        return before
    for name in os.environ.get("TORCHELASTIC_SIGNALS_TO_HANDLE", _SIGNALS).split(","):
        try:
            number = getattr(signal, name.strip())
            handler = signal.getsignal(number)
            if handler is raise_signal:
                continue  # other ranks of this process have it, and give it back
            if number == signal.SIGHUP and handler is signal.SIG_IGN:
                continue  # by nohup
            signal.signal(number, raise_signal)
        except (AttributeError, ValueError, TypeError, OSError):
            logger.warning("Failed to register signal handler for %s", name, exc_info=True)
            continue
        before[int(number)] = handler
        logger.info("Registered signal handler for %s", name)
    return before


def give_signals_back(before: dict[int, Any]) -> None:
    """Undo `let_signals_raise`; only the main thread can do that."""
    if threading.current_thread() is threading.main_thread():
        while before:
            number, handler = before.popitem()
            if signal.getsignal(number) is raise_signal:
                signal.signal(number, handler or signal.SIG_DFL)
