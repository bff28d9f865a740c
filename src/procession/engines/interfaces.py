"""By which network interface each machine reaches the others, for libraries that must be told."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable

from procession.engines.addresses import of_interfaces
from procession.values.spec import Spec

NAMES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "TP_SOCKET_IFNAME")


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
