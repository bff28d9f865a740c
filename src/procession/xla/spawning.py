"""`spawn` and `launch`: which set-up the environment describes, and its ranks started."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from typing import Any

from procession.values.base import is_count
from procession.values.errors import RemoteError, SpecError

TYPE_CHECKING = False  # ranks import this, too
if TYPE_CHECKING:
    from procession.devices.seat import Variables
    from procession.multiprocessing import ProcessContext

XRT = "XRT"
How = tuple[bool, bool, str]  # `join`, `daemon` and `start_method` of `spawn`


def spawn(
    fn: Callable[..., Any],
    args: Iterable[Any] = (),
    nprocs: int | None = None,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Call `fn(ordinal, *args)` in a process for each device of this host.

    fn: any function. Its first argument is the rank's number among those of all hosts.
    args: what it is called with after that.
    nprocs: None for all devices, or 1; XRT takes the number of devices, too.
    join: wait for the ranks; otherwise return a `procession.multiprocessing.ProcessContext`.
    daemon, start_method: as for `procession.multiprocessing.start_processes`.

    What this is depends on the environment:
    - `PJRT_DEVICE`, or a TPU or Neuron device found: PJRT. nprocs 1 calls `fn` in this process. An
      exception of a rank is raised here.
    - `XRT_TPU_CONFIG` or `XRT_LOCAL_WORKER`: XRT. An exception of a rank goes to its stderr, and
      it exits with code 17. nprocs 1 does so in this process, which ends by SystemExit (0 or 17).
    - Neither: nprocs None or 1 calls `fn(0, *args)` in this process and ends it by SystemExit(0);
      more are started plainly.

    Raises SpecError (a ValueError) before anything is started, if that cannot be done; RuntimeError
    if torch_xla holds the devices in this process already; and what `ProcessContext.join` raises
    when a rank fails: ProcessExitedException, for example `process 2 terminated with exit code 17`.
    """
    return _spawn(_set_up(), fn, _checked(fn, args), nprocs, (join, daemon, start_method))


def launch(
    fn: Callable[..., Any],
    args: Iterable[Any] = (),
    start_method: str = "spawn",
    debug_single_process: bool = False,
) -> None:
    """Call `fn(ordinal, *args)` in a process for each device of this host, and wait for them.

    debug_single_process: call it in this process, on one device.

    Parameters, and what is raised, are those of `spawn`; where the environment describes nothing,
    this is PJRT on the CPU, with one process. In a rank of torchrun or of `procession run`, `fn` is
    called with that rank, and nothing is started. Raises NotImplementedError under XLA_USE_SPMD.
    """
    call = _checked(fn, args)
    if _flag("XLA_USE_SPMD"):
        raise NotImplementedError("launch() starts ranks, and SPMD (XLA_USE_SPMD) has none")
    if "TORCHELASTIC_RUN_ID" in os.environ and "RANK" in os.environ:
        fn(int(os.environ["RANK"]), *call)
        return
    nprocs = 1 if debug_single_process else None
    _spawn(_set_up() or "CPU", fn, call, nprocs, (True, False, start_method))


def _checked(fn: Any, args: Any) -> tuple[Any, ...]:
    from procession.multiprocessing.spawn import checked

    return checked(fn, args)


def _flag(name: str) -> bool:
    text = os.environ.get(name, "")
    return text == "true" or (is_count(text) and int(text) > 0)


def _set_up() -> str | None:
    """Give XRT, or the kind of device of PJRT, or None where there is neither."""
    from procession.xla import pjrt, xrt

    if not os.environ.get("PJRT_DEVICE") and xrt.is_set_up(os.environ):
        return XRT
    from procession.system import accelerators

    return pjrt.device_type(os.environ, (a.kind for a in accelerators.find() if a.count))


def _spawn(
    kind: str | None, fn: Callable[..., Any], args: tuple[Any, ...], nprocs: int | None, how: How
) -> ProcessContext | None:
    if kind == XRT:
        return _spawn_xrt(fn, args, nprocs, how)
    if kind is not None:
        return _spawn_pjrt(kind, fn, args, nprocs, how)
    if nprocs in (None, 1) and how[0]:
        fn(0, *args)
        sys.exit(0)
    count = 1 if nprocs is None else nprocs
    if not isinstance(count, int) or count < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise SpecError(f"nprocs must be a count of 1 or more, not {nprocs!r}")
    from procession.multiprocessing import start_processes

    return start_processes(fn, args, count, *how)


# -- XRT


def _spawn_xrt(
    fn: Callable[..., Any], args: tuple[Any, ...], nprocs: int | None, how: How
) -> ProcessContext | None:
    from procession.multiprocessing.spawn import launch as start
    from procession.system.ports import free_port
    from procession.xla import xrt
    from procession.xla.rank import OnXrt

    count = xrt.ranks_wanted(os.environ, nprocs)
    env = xrt.environments(os.environ, count)
    if not os.environ.get(xrt.SERVICE):
        os.environ[xrt.SERVICE] = f"localhost:{free_port()}"
    if count == 1:
        _apply(env[0])
        OnXrt(fn)(0, *args)
        sys.exit(0)
    return start(OnXrt(fn), args, count, *how, env)


# -- PJRT


def _spawn_pjrt(
    kind: str, fn: Callable[..., Any], args: tuple[Any, ...], nprocs: int | None, how: How
) -> ProcessContext | None:
    from procession.devices.topology import find_topology
    from procession.multiprocessing import ProcessRaisedException
    from procession.multiprocessing.spawn import launch as start
    from procession.system.ports import free_port
    from procession.xla import pjrt
    from procession.xla.rank import OnPjrt

    pjrt.refuse_count(nprocs)
    if nprocs == 1:
        _apply(pjrt.single(kind, os.environ))
        fn(0, *args)
        return None
    _refuse_open_runtime()
    topology = find_topology(os.environ) if kind == "TPU" else None
    host = os.environ.get("MASTER_ADDR") or "localhost"
    endpoint = f"[{host}]:{free_port()}" if ":" in host else f"{host}:{free_port()}"
    ranks = pjrt.ranks(kind, os.environ, topology, endpoint)
    call = OnPjrt(fn, ranks.first, ranks.world_size)
    try:
        return start(call, args, len(ranks.env), *how, ranks.env)
    except ProcessRaisedException as e:  # what the rank raised, as far as it can be brought here
        original = e.__cause__
        if original is None or isinstance(original, RemoteError):
            raise
        e.__cause__ = None
        raise original from e


def _refuse_open_runtime() -> None:
    """Refuse to start ranks that could not open the devices: this process has them."""
    runtime: Any = getattr(sys.modules.get("torch_xla"), "_XLAC", None)
    is_open = getattr(runtime, "_xla_runtime_is_initialized", None)
    if is_open is not None and is_open():
        raise RuntimeError(
            "the XLA runtime is initialized in this process already, and holds the devices: "
            "use no XLA device before the ranks are started"
        )


def _apply(variables: Variables) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
