"""Free TCP ports for rendezvous."""

from __future__ import annotations

import _socket as socket  # the module `socket` around it takes 2 ms to import
import errno
import os

# Below the kernel's default range for outgoing connections (32768 to 60999), so that no outgoing
# connection takes the port between this check and rank 0's listen. It is not kept bound until then:
# programs that listen without SO_REUSEADDR would fail.
FIRST, LAST = 20000, 32000
TRIES = 200

_given: list[int] = []


def free_port() -> int:
    """Give a port that is free, and that this process did not give out lately.

    Raises OSError when none is found.
    """
    for _ in range(TRIES):
        port = FIRST + int.from_bytes(os.urandom(4), "big") % (LAST - FIRST)
        if port not in _given and _is_free(port):
            _given.append(port)
            del _given[:-1000]
            return port
    raise OSError(f"no free TCP port found between {FIRST} and {LAST}")


def _is_free(port: int) -> bool:
    for family, address in ((socket.AF_INET6, "::"), (socket.AF_INET, "0.0.0.0")):  # noqa: S104 - only looked at, never listened on
        try:
            probe = socket.socket(family, socket.SOCK_STREAM)
            try:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                probe.bind((address, port))
            finally:
                probe.close()
        except OSError as e:
            if e.errno in (errno.EMFILE, errno.ENFILE):
                raise
            if family == socket.AF_INET6 and e.errno != errno.EADDRINUSE:
                continue  # a machine without IPv6
            return False
    return True
