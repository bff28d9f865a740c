"""The terms of a rendezvous, and how torchrun's options say them. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any

from procession.values.base import Value, is_count
from procession.values.errors import SpecError

PORT = 29400  # torchrun's, where an endpoint has none
SPARES = 64  # launchers beyond --nnodes that may wait for a place
LEASE = 5.0
APART = 10_000  # between the port of launchers and that of ranks, where machines are numbered
YES, NO = ("1", "true", "t", "yes", "y"), ("0", "false", "f", "no", "n")  # as torchrun reads them


class Terms(Value):
    """What all launchers of a job have agreed on, and what each knows of its own machine.

    host, port: where they meet. run_id: what the job is called; launchers with other ids stay
    apart. least, most: how many machines take part; different in an elastic job. number: which of
    them this is, None where the rendezvous gives numbers. local_addr: how the ranks of other
    machines reach this one, "" for what the connection to the host says. is_host: whether this
    launcher opens the door, None where its addresses say so. join: seconds in which enough machines
    must come; last_call: seconds for more to come, when enough are there; close: seconds for all to
    leave; read: seconds for an answer; lease: seconds of silence after which a machine is lost.
    munge: whether MUNGE takes the place of a shared secret;
    None: where srun has started the launchers. ranks_port: where ranks meet at `host`, 0: where
    node 0 says.

    Where one command has started all launchers (srun, mpirun): starter: the command, "" elsewhere.
    together: the nodes that it has started one on, by number, "" for those without a known name.
    further: ports to meet at where `port` is taken.
    """

    host: str
    port: int
    run_id: str
    least: int
    most: int
    number: int | None = None
    local_addr: str = ""
    is_host: bool | None = None
    join: float = 600.0
    last_call: float = 30.0
    close: float = 3.0
    read: float = 60.0
    lease: float = LEASE
    munge: bool | None = None
    ranks_port: int = 0
    starter: str = ""
    together: tuple[str, ...] = ()
    further: tuple[int, ...] = ()

    @property
    def elastic(self) -> bool:
        """Whether the job may go on with fewer machines, or with more."""
        return self.least < self.most

    @property
    def tells(self) -> bool:
        """Whether this launcher says what all would say.

        Where one command has started them, their lines come to one console, and the first tells.
        """
        return not self.starter or self.number == 0

    @property
    def at(self) -> str:
        """Where they meet, in words."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def places(self) -> str:
        """All places where they may meet, in words."""
        return f"{self.at} (or {', '.join(map(str, self.further))})" if self.further else self.at


def door_of(ranks_port: int) -> int:
    """Give the port at which numbered launchers meet, by that at which their ranks meet.

    It is another one, since rank 0 listens at that. Jobs on one machine have different ports for
    their ranks, and so for their launchers.
    """
    return ranks_port - APART if ranks_port > APART + 1023 else ranks_port + APART


def read_endpoint(text: str, where: str, default: int = PORT) -> tuple[str, int]:
    """Take `HOST:PORT` apart. where: the option's name, for SpecError.

    default: the port where none is said; 0: it must be said.
    """
    text = text.strip()
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, port = text, str(default)
    if ":" in host and "[" not in text:
        raise SpecError(
            f"{where} must be HOST:PORT, an IPv6 address in brackets, as in [::1]:{PORT}, not "
            f"{text!r}"
        )
    closed = host.startswith("[") == host.endswith("]")
    if not host or not closed or not is_count(port, 5) or not 0 < int(port) <= 65535:
        raise SpecError(f"{where} must be HOST:PORT, with a port from 1 to 65535, not {text!r}")
    return host.strip("[]"), int(port)


def read_machines(text: str, where: str) -> tuple[int, int]:
    """Give how many machines take part, at least and at most. where: as above."""
    least, colon, most = text.partition(":")
    if not is_count(least, 6) or (colon and not is_count(most, 6)):
        raise SpecError(f"{where} must be a count of machines, not {text!r}")
    low, high = int(least), int(most or least)
    if low < 1:
        raise SpecError(f"{where} must be a count of 1 or more, not {text!r}")
    if high < low:
        raise SpecError(f"{where} must be LEAST:MOST, the smaller count first, not {text!r}")
    return low, high


def parse_conf(text: str, where: str) -> dict[str, str]:
    """Take `NAME=VALUE,NAME=VALUE,...` apart. where: the option's name, for SpecError.

    Quotes around all of it, which no shell has taken off, are none of it.
    """
    found: dict[str, str] = {}
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        text = text[1:-1]
    for part in text.split(",") if text else ():
        name, equals, value = (each.strip() for each in part.partition("="))
        if not name or not equals or not value:
            raise SpecError(f"{where} must be NAME=VALUE,NAME=VALUE,..., not {text!r}")
        if found.setdefault(name, value) != value:
            raise SpecError(f"{where} has two values for {name}: {found[name]} and {value}")
    return found


def terms_of_conf(conf: Mapping[str, str], where: str, *, static: bool) -> dict[str, Any]:
    """Give the fields of `Terms` that --rdzv-conf sets.

    static: for that backend, which has fewer words. Raises SpecError for what is not known, or
    cannot be obeyed: nothing is ignored.
    """
    readers = STATIC if static else C10D
    found: dict[str, Any] = {}
    for name, value in conf.items():
        if name in REFUSED:
            raise SpecError(f"{where} {name}: {REFUSED[name]}")
        if name not in readers:
            near = get_close_matches(name, readers, 1)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(sorted(readers))}"
            raise SpecError(f"{where} has no {name!r}: {hint}")
        field, read = readers[name]
        taken = read(value, f"{where} {name}")
        if found.setdefault(field, taken) != taken:
            other = next(n for n in conf if readers[n][0] == field)
            raise SpecError(f"{where} has two values for one thing: {other} and {name}")
    interval, attempts = found.pop("interval", None), found.pop("attempts", None)
    if interval is not None or attempts is not None:
        found["lease"] = (interval or 5.0) * (attempts or 3)
        if found["lease"] < 1:
            raise SpecError(
                f"{where}: keep_alive_interval times keep_alive_max_attempt is the lease, and must "
                f"be 1 second or more, not {found['lease']:g}"
            )
    found.pop("", None)
    return found


def _seconds(text: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < 1e7:
        raise SpecError(f"{where} must be seconds, more than 0, not {text!r}")
    return value


def _backoff(text: str, where: str) -> None:
    """Check what has no effect: only the host writes."""
    if text.strip("0."):
        _seconds(text, where)


def _tcp(text: str, where: str) -> None:
    if text != "tcp":
        raise SpecError(
            f"{where} must be tcp, not {text!r}: the machines meet at the address that "
            "--rdzv-endpoint names, not in a file"
        )


def _count(text: str, where: str) -> int:
    if not (is_count(text) and 0 < int(text) < 10**6):
        raise SpecError(f"{where} must be a count of 1 or more, not {text!r}")
    return int(text)


def _flag(text: str, where: str) -> bool:
    if text.lower() not in (*YES, *NO):
        raise SpecError(f"{where} must be 1 or 0, not {text!r}")
    return text.lower() in YES


Reader = Callable[[str, str], object]
_BOTH: dict[str, tuple[str, Reader]] = {
    "is_host": ("is_host", _flag),
    "munge": ("munge", _flag),
    "keep_alive_interval": ("interval", _seconds),
    "keep_alive_max_attempt": ("attempts", _count),
    "close_timeout": ("close", _seconds),
    "read_timeout": ("read", _seconds),
}
C10D: dict[str, tuple[str, Reader]] = {
    **_BOTH,
    "join_timeout": ("join", _seconds),
    "timeout": ("join", _seconds),
    "last_call_timeout": ("last_call", _seconds),
    "store_type": ("", _tcp),
    "cas_backoff_max_seconds": ("", _backoff),
}
STATIC: dict[str, tuple[str, Reader]] = {
    **_BOTH,
    "timeout": ("join", _seconds),
}
REFUSED = {
    **dict.fromkeys(
        ("heartbeat", "heartbeat_timeout"),
        "links have no round trips that could take too long; keep_alive_interval and "
        "keep_alive_max_attempt say after which silence a machine is lost",
    ),
    "rank": "write --node-rank NUMBER",
}
