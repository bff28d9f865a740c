"""The connection to a Ray cluster: its address, whether it answers, its nodes, its messages.

Theory of operation. `ray.init` tries to reach a dead head node for two minutes and prints to our
standard error meanwhile; later it prints news of lost nodes to our standard output; and it sets
variables that programs started from here would inherit. So an address is first tried with a plain
connection. If this module has initialised Ray, it also silences it, and restores the variables.
Whatever Ray raises becomes an EngineError here.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import signal
import socket
import threading
from collections.abc import Iterator, Mapping
from typing import Any

from procession.engines.contract import EngineError
from procession.values.errors import SpecError

ANSWERS = 5.0  # seconds in which a cluster's address must accept a connection


class RayCluster:
    """A cluster, and this process's connection to it.

    address: see RayEngine.
    """

    def __init__(self, address: str | None) -> None:
        self._address = address
        self._ours = False  # whether this object has initialised Ray
        self._before: dict[str, str | None] = {}  # variables that Ray has set in this process

    def find(self, nodes: int) -> str | None:
        """Give the address for `ray.init`, None if Ray is initialised already.

        nodes: how many are needed. Raises SpecError, or EngineError if it cannot work.
        """
        ray = ray_module()
        given = self._address
        if ray.is_initialized():
            if given in (None, "auto", ray.get_runtime_context().gcs_address):
                return None
            raise SpecError(
                f"address={given!r}: this process is connected to another Ray already; leave "
                "address out to use that one"
            )
        address = given or os.environ.get("RAY_ADDRESS") or "auto"
        if address.startswith("ray://"):
            raise SpecError(
                f"{address}: Ray Client cannot be used; start the program on a machine of the "
                "cluster (with 'ray job submit', for example), or give its head as HOST:6379"
            )
        if address not in ("auto", "local"):
            if _answers(address):
                return address
            raise EngineError(
                f"no Ray answers at {address} within {ANSWERS:g} s: is its head node running ('ray "
                "start --head'), and is this the address that it told?"
            )
        if address == "auto":
            running = _running_here()
            if running and _answers(running):
                return running
        if nodes == 1 and given != "auto":
            return "local"
        raise EngineError(
            f"Ray: {nodes} node{'s' * (nodes > 1)} wanted, and there is no cluster: run 'ray start "
            "--head' on one machine, 'ray start --address=HEAD:6379' on the others, and set "
            "RAY_ADDRESS=HEAD:6379"
        )

    def connect(self, nodes: int) -> None:
        """Initialise Ray if it is not. Raises as `find`."""
        address = self.find(nodes)
        if address is None:
            return
        ray = ray_module()
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
        if address == "local":
            options["include_dashboard"] = False
        handler, before = signal.getsignal(signal.SIGTERM), dict(os.environ)
        with plainly(f"could not connect to {address}"):
            ray.init(address=address, **options)
        self._ours = True
        changed = {n for n, value in os.environ.items() if before.get(n) != value}
        self._before = {n: before.get(n) for n in changed}
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)  # Ray's handler would exit without a message
        _hush(ray)

    def leave(self) -> None:
        """End the connection, if this object has made it."""
        if self._ours:
            self._ours = False
            with contextlib.suppress(Exception):
                ray_module().shutdown()
            for name, value in self._before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value

    def nodes(self) -> dict[str, dict[str, float]]:
        """Give what each node that is alive has, used or not, by its id."""
        return {n["NodeID"]: n["Resources"] for n in ray_module().nodes() if n["Alive"]}

    def lacks(self, bundle: Mapping[str, float], count: int) -> str:
        """Say why `count` nodes with a bundle each cannot be had now: too few, or in use."""
        nodes = list(self.nodes().values())
        fit = sum(all(n.get(k, 0) >= v for k, v in bundle.items()) for n in nodes)
        if fit < count:
            sizes = "; ".join(asked({k: n.get(k, 0) for k in bundle}) for n in nodes)
            return f"of its {len(nodes)} nodes ({sizes}) {fit} would do"
        free: dict[str, float] = ray_module().available_resources()
        left = asked({k: free.get(k, 0) for k in bundle})
        return f"it has {fit} such nodes, but they are in use: {left} free in all"


def ray_module(name: str = "ray") -> Any:
    """Import a module of Ray. Raises EngineError where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError as e:
        if (e.name or "").partition(".")[0] != "ray":
            raise EngineError(f"Ray is installed, but cannot be imported: {e}") from None
        raise EngineError("Ray is not installed here: pip install 'procession[ray]'") from None


@contextlib.contextmanager
def plainly(doing: str) -> Iterator[None]:
    """Turn exceptions of Ray into EngineErrors."""
    try:
        yield
    except EngineError:
        raise
    except Exception as e:
        raise EngineError(f"Ray: {doing}: {said(e)}") from None


def said(error: BaseException) -> str:
    """Give the message of an exception of Ray, in one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if "failed to import on the worker" in str(error):
        where = re.search(r"\bip=([^,)\s]+)", str(error))
        node = f"on {where[1]}" if where else "there"
        return f"procession cannot be imported {node} ({lines[-1]}): install it on all nodes"
    # Ray's texts: a sentence, "key: value" for the actor, then the reason; or a traceback.
    reasons = [line for line in lines if line.startswith(("The actor", "The node", "Node "))]
    if reasons:
        return " ".join(dict.fromkeys(reasons[-2:]))
    return lines[-1] if lines else type(error).__name__


def asked(bundle: Mapping[str, float]) -> str:
    """Write resources for people: "2 CPU, 1 GPU"."""
    return ", ".join(f"{amount:g} {name}" for name, amount in bundle.items())


def _running_here() -> str | None:
    """Give the address of the cluster that was started on this machine, which may be dead."""
    with contextlib.suppress(Exception):  # not public; without it, an address must be given
        return ray_module("ray._private.services").canonicalize_bootstrap_address("auto")
    return None


def _answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or len(port) > 5:
        raise SpecError(f"address={address!r} is no address of a Ray cluster, such as HOST:6379")
    try:
        socket.create_connection((host.strip("[]"), int(port)), ANSWERS).close()
    except (OSError, OverflowError):
        return False
    return True


def _hush(ray: Any) -> None:
    """Have Ray print no news of lost nodes to our standard output: we tell it ourselves."""
    with contextlib.suppress(Exception):  # not public; without it, Ray prints more
        worker = ray._private.worker.global_worker
        worker.threads_stopped.set()
        worker.gcs_error_subscriber.close()
