"""What comes over a socket, taken by a loop."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from procession.system.eventloop import EventLoop


def relay(loop: EventLoop, sock: socket.socket, take: Callable[[bytes], object]) -> None:
    """Have what comes from a socket taken, b"" at its end: it is closed then."""
    sock.setblocking(False)

    def hear() -> None:
        try:
            data = sock.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            loop.forget(sock.fileno())
            sock.close()
        take(data)

    loop.watch(sock.fileno(), hear)
