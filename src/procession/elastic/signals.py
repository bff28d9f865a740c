"""Signals of the launcher that are raised as `SignalException` while it has ranks."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import weakref
from types import FrameType
from typing import Any

logger = logging.getLogger("procession.elastic.api")

_SIGNALS = "SIGTERM,SIGINT,SIGHUP,SIGQUIT"
_TORCHS = "torch.distributed.elastic.multiprocessing.api"

_replaced: dict[int, Any] = {}  # signal -> what it did before
_holders: weakref.WeakSet[object] = weakref.WeakSet()  # the contexts for which signals raise
_owner = 0  # the process that they belong to


class SignalException(Exception):
    """A signal that came while this process had ranks. sigval: the signal."""

    def __init__(self, msg: str, sigval: signal.Signals) -> None:
        Exception.__init__(self, msg)  # whichever class stands beside this one
        self.sigval = sigval


def raise_signal(signum: int, frame: FrameType | None) -> None:
    """Raise SignalException; in a fork, or when no context is left, do what was done before."""
    if signum in _replaced and (os.getpid() != _owner or not _holders):
        signal.signal(signum, _replaced[signum] or signal.SIG_DFL)
        os.kill(os.getpid(), signum)
        return
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


def let_signals_raise(holder: object) -> None:
    """Have signals raise until `give_signals_back` was called for each holder; main thread only."""
    global _owner
    _owner = os.getpid()
    _holders.add(holder)
    for name in os.environ.get("TORCHELASTIC_SIGNALS_TO_HANDLE", _SIGNALS).split(","):
        try:
            number = getattr(signal, name.strip())
            if number == signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN:
                continue  # by nohup
            before = signal.signal(number, raise_signal)
        except (AttributeError, ValueError, TypeError, OSError):
            logger.warning("Failed to register signal handler for %s", name, exc_info=True)
            continue
        if before is not raise_signal:
            _replaced[int(number)] = before
        logger.info("Registered signal handler for %s", name)


def give_signals_back(holder: object) -> None:
    """Restore the handlers of signals if this was the last holder.

    Only the main thread can do that: called in another one, it is done when a signal comes.
    """
    _holders.discard(holder)
    if _holders or threading.current_thread() is not threading.main_thread():
        return
    for number, before in _replaced.items():
        if signal.getsignal(number) is raise_signal:
            signal.signal(number, before or signal.SIG_DFL)
    _replaced.clear()
