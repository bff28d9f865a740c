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
from typing import Any

from procession.system.eventloop import EventLoop

ADDRESS_SECONDS = 3.0  # for one address of a machine


def connect(
    loop: EventLoop, host: str, port: int, seconds: float, over: Callable[[], bool]
) -> socket.socket:
    """Connect, while the loop turns. Raises OSError, also when time is over.

    over: whether nobody wants the connection any more; is asked after each turn.
    """
    found: list[socket.socket | OSError] = []
    late: list[bool] = []
    wanted = True

    def take(got: socket.socket | OSError) -> None:
        if wanted:
            found.append(got)
        elif isinstance(got, socket.socket):
            got.close()

    def work() -> None:
        try:
            got = socket.create_connection((host, port), min(ADDRESS_SECONDS, seconds))
        except UnicodeError as e:  # no name can be so
            got = OSError(str(e))
        except OSError as e:
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
    if isinstance(found[0], OSError):
        raise found[0]
    return found[0]


def look_up(host: str, seconds: float) -> list[Any]:
    """Give the addresses of a host as `getaddrinfo` does, for datagrams. Raises OSError.

    A signal whose handler raises ends it at once.
    """
    found: list[Any] = []
    done = threading.Event()

    def work() -> None:
        try:
            found.extend(socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM))
        except (OSError, UnicodeError):
            pass  # there is none
        done.set()

    threading.Thread(target=work, name="procession-name", daemon=True).start()
    if not done.wait(seconds):
        raise TimeoutError(f"no name server says within {seconds:.1f} s which machine {host} is")
    return found
