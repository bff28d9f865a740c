"""The addresses of this machine, a port where node processes find their driver, and interfaces.

Libraries must be told by which network interface each machine reaches the others.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import struct
from collections.abc import Iterable

from procession.values.errors import SpecError
from procession.values.spec import Spec

ADDRESS = "PROCESSION_DRIVER_ADDRESS"  # set by users who know where node processes reach the driver
NAMES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "TP_SOCKET_IFNAME")  # of interfaces
SIOCGIFADDR = 0x8915  # <linux/sockios.h>
BACKLOG = 4096
SPARE = 256  # descriptors for all but the links to node processes


def make_room(nodes: int) -> None:
    """Raise this process's limit of descriptors to what so many nodes need. Raises SpecError."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = nodes + SPARE
    if soft == resource.RLIM_INFINITY or needed <= soft:
        return
    if hard != resource.RLIM_INFINITY and needed > hard:
        raise SpecError(
            f"{nodes} nodes need {needed} descriptors in this process, and it may have {hard}: "
            "raise the limit (ulimit -Hn), or take fewer nodes"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def listen(port: int = 0) -> socket.socket:
    """Listen on a port of all addresses; 0: on any that is free. Raises OSError."""
    if socket.has_dualstack_ipv6():
        try:
            return socket.create_server(
                ("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=BACKLOG
            )
        except OSError as e:
            if e.errno == errno.EADDRINUSE:
                raise
            # IPv6 is switched off
    return socket.create_server(("", port), backlog=BACKLOG)


def own_addresses() -> list[str]:
    """Give the addresses at which other machines may reach this one, the likeliest first.

    Raises SpecError if the user named one that does not exist.
    """
    said = os.environ.get(ADDRESS)
    if said:
        try:
            socket.getaddrinfo(said, 0)
        except OSError as e:
            raise SpecError(f"{ADDRESS}: {said!r}: {e.strerror or e}") from None
        return [said]
    found: dict[str, None] = {}
    for address in (*_of_name(), *(own for _, own in of_interfaces())):
        if not address.startswith(("127.", "::1", "fe80:")):
            found[address] = None
    return [*found, "127.0.0.1"]


def _of_name() -> list[str]:
    try:
        known = socket.getaddrinfo(socket.gethostname(), None, type=socket.SOCK_STREAM)
    except OSError:
        return []
    return [str(each[4][0]) for each in known]


def of_interfaces() -> list[tuple[str, str]]:
    """Give the name and the IPv4 address of each network interface that has one."""
    found: list[tuple[str, str]] = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for _, name in socket.if_nameindex():
            try:
                answer = fcntl.ioctl(sock.fileno(), SIOCGIFADDR, struct.pack("256s", name.encode()))
            except OSError:
                continue  # it has no IPv4 address
            found.append((name, socket.inet_ntoa(answer[20:24])))
    return found


def interface_of(address: str) -> str:
    """Give the interface that has an address; "" for none, and for the loopback interface."""
    address = address.removeprefix("::ffff:").partition("%")[0]
    if ":" not in address:
        names = [name for name, own in of_interfaces() if own == address != "127.0.0.1"]
        return names[0] if names else ""
    try:
        wanted = socket.inet_pton(socket.AF_INET6, address).hex()
        with open("/proc/net/if_inet6") as f:
            rows = [line.split() for line in f]
    except OSError:
        return ""
    names = [row[5] for row in rows if row[0] == wanted and row[5] != "lo"]
    return names[0] if names else ""


def with_interface(spec: Spec, name: str) -> Spec:
    """Have ranks use an interface, by those variables that are not set on their machine."""
    given = {each: name for each in unset() if name}
    return spec.__replace__(env=tuple({**given, **own} for own in spec.env))


def say_interfaces(spec: Spec, names: Iterable[str], unset: Iterable[str]) -> str:
    """Say what ranks use, "" for nothing."""
    found = sorted({*names} - {""})
    given = [each for each in unset if any(each not in own for own in spec.env)]
    if not found or not given:
        return ""
    return f"machines reach each other by {', '.join(found)}, as is set in {', '.join(given)}"


def unset() -> list[str]:
    """Give those of the variables that are not set in this process."""
    return [each for each in NAMES if each not in os.environ]
