"""Who opens the door of a rendezvous: the launcher on the machine that its address names."""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
from functools import lru_cache

from procession.engines.addresses import listen
from procession.engines.connecting import look_up
from procession.engines.contract import EngineError
from procession.engines.rendezvous.terms import Terms
from procession.engines.slurm.processes import ask, fact
from procession.values.errors import SpecError


def open_door(terms: Terms) -> socket.socket | None:
    """Listen at the agreed port if this machine hosts the rendezvous; else give None.

    Where the port is taken on a machine that only seems to be the host, this launcher is one of
    several there, and joins the one that has it. Raises SpecError where it was told to be the host.
    """
    if terms.is_host is False or (terms.is_host is None and not is_own(terms.host, terms.join)):
        return None
    fault = OSError()
    for port in (terms.port, *terms.further):
        try:
            return listen(port)
        except OSError as e:
            fault = e
    if terms.is_host is None and fault.errno == errno.EADDRINUSE:
        return None
    again = "start the step again, for a new step has other ports"  # nobody has chosen them
    raise SpecError(
        f"this launcher is to host the rendezvous at {terms.places}, and cannot listen there: "
        f"{fault.strerror}; {again if terms.further else 'choose another port on all machines'}"
    )


@lru_cache(maxsize=1)
def is_own(host: str, seconds: float) -> bool:
    """Tell whether an address or a name is this machine's, as torchrun does.

    A name is this machine's if it is its host name, its full name, or the name of one of its
    addresses, also of further network cards. seconds: for name servers to answer.
    """
    if host in ("localhost", socket.gethostname()):
        return True
    try:
        if ipaddress.ip_address(host).is_loopback:
            return True
    except ValueError:
        pass
    try:
        found = look_up(host, seconds)
    except OSError:
        return False
    return any(_is_own_address(family, address) for family, _, _, _, address in found)


def _is_own_address(family: int, address: tuple[object, ...]) -> bool:
    """Tell whether what goes to an address would come from it: nothing is sent."""
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as sock:
            sock.connect(address)
            return sock.getsockname()[0] == address[0]
    except OSError:
        return False


def with_address(terms: Terms) -> Terms:
    """Give the terms with the address by which Slurm reaches the host, where they have a name."""
    if not terms.host or terms.host not in terms.together:
        return terms
    try:
        said = ask(("scontrol", "show", "node", "--oneliner", terms.host), os.environ)
    except EngineError:
        return terms
    return terms.__replace__(host=fact(said, "NodeAddr") or terms.host)


def own_name() -> str:
    """Give this machine's full name, by which torchrun puts machines in order."""
    name = socket.gethostname()
    return name if "." in name else socket.getfqdn()
