"""Finding a machine by its name and address, without being deaf to signals meanwhile.

Theory of operation. A name server that does not answer is waited for by the C library for as long
as /etc/resolv.conf says, by default 10 s and more, and nothing interrupts that. A connection to an
address that nobody has takes seconds as well. So both are left to a daemon thread, and given up
when the time is over or a signal has come. Such a thread ends by itself, and closes what it got.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from procession.engines.contract import EngineError
from procession.system.eventloop import EventLoop

ADDRESS_SECONDS = 3.0  # for one address of a machine

T = TypeVar("T")


def connect(
    loop: EventLoop, host: str, port: int, seconds: float, over: Callable[[], bool]
) -> socket.socket:
    """Connect, while the loop turns. Raises OSError, also when time is over.

    over: whether nobody wants the connection any more; is asked after each turn.
    """
    within = min(ADDRESS_SECONDS, seconds)
    return waited(loop, lambda: socket.create_connection((host, port), within), seconds, over)


def waited(loop: EventLoop, call: Callable[[], T], seconds: float, over: Callable[[], bool]) -> T:
    """Give what a call gives that may block, while the loop turns; else as `connect`.

    A socket that nobody wants any more is closed. Raises EngineError if the call does.
    """
    found: list[T | Exception] = []
    late: list[bool] = []
    wanted = True

    def take(got: T | Exception) -> None:
        if wanted:
            found.append(got)
        elif isinstance(got, socket.socket):
            got.close()

    def work() -> None:
        try:
            got = call()
        except UnicodeError as e:  # no name can be so
            got = OSError(str(e))
        except (OSError, EngineError) as e:
            got = e
        if not loop.request(lambda: take(got)) and isinstance(got, socket.socket):
            got.close()

    threading.Thread(target=work, name="procession-connect", daemon=True).start()
    loop.after("connecting", seconds, lambda: late.append(True))
    while not (found or late or over()):
        loop.turn()
    wanted = False
    loop.cancel("connecting")
    if not found:
        raise TimeoutError(f"no answer within {seconds:.1f} s, from it or from its name server")
    if isinstance(found[0], Exception):
        raise found[0]
    return found[0]


def look_up(host: str, seconds: float) -> list[Any]:
    """Give the addresses of a host as `getaddrinfo` does, for datagrams. Raises OSError.

    A signal whose handler raises ends it at once.
    """
    loop = EventLoop()
    try:
        look = partial(socket.getaddrinfo, host, 9, type=socket.SOCK_DGRAM)
        return waited(loop, look, seconds, lambda: False)
    finally:
        loop.close()
