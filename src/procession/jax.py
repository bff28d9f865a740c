"""JAX in the ranks of a group: `procession.jax.initialize()` makes them one JAX system.

    import procession.jax

    procession.jax.initialize()  # in every rank, before any computation

It works on the CPU, too.
"""

from __future__ import annotations

import atexit
import os
import sys
from typing import Any

from procession.values.base import is_count
from procession.values.errors import ProcessionError
from procession.worker import outcome

LOOPBACK = ("127.", "localhost", "::1")


def initialize(**keywords: Any) -> None:
    """Call `jax.distributed.initialize` with this rank's number in its group.

    The address of the coordinator, the count of processes and the number of this one are taken from
    MASTER_ADDR, MASTER_PORT, WORLD_SIZE and RANK; JAX guesses nothing. keywords: whatever else
    `jax.distributed.initialize` takes. Unless they, or JAX's own variables, say otherwise:
    - of several ranks on one machine, each uses the GPU with the number LOCAL_RANK;
    - the coordinator listens on the loopback interface only, if that is where the ranks meet;
    - collectives on the CPU are gloo's;
    - JAX's preemption service is off, with which a process would ignore the stop signal; switch it
      on with JAX_ENABLE_PREEMPTION_SERVICE=1.

    A rank that fails, by an exception or `sys.exit(n)`, does not wait for the others to end, as JAX
    would for minutes: of its exit handlers, those registered after this call run, no others.

    Raises ProcessionError outside of a rank; ImportError without JAX; and what JAX raises.
    """
    rank, world_size = _number("RANK"), _number("WORLD_SIZE")
    if not 0 <= rank < world_size:
        raise ProcessionError(f"RANK={rank} is no rank of a group with WORLD_SIZE={world_size}")
    host, port = _variable("MASTER_ADDR"), _number("MASTER_PORT")
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    if host.startswith(LOOPBACK) and "JAX_COORDINATOR_BIND_ADDRESS" not in os.environ:
        keywords.setdefault("coordinator_bind_address", address)
    alone = os.environ.get("LOCAL_WORLD_SIZE", "1") == "1"
    if not alone and "JAX_LOCAL_DEVICE_IDS" not in os.environ:
        keywords.setdefault("local_device_ids", [_number("LOCAL_RANK")])
    keywords.setdefault("cluster_detection_method", "deactivate")

    import jax

    config: Any = jax.config
    # Older versions have no preemption service to switch off, or no collectives on the CPU.
    preempted = getattr(config, "jax_enable_preemption_service", False)
    if preempted and "JAX_ENABLE_PREEMPTION_SERVICE" not in os.environ:
        config.update("jax_enable_preemption_service", False)
    if getattr(config, "jax_cpu_collectives_implementation", "") in (None, "none"):
        config.update("jax_cpu_collectives_implementation", "gloo")
    distributed: Any = jax.distributed
    distributed.initialize(
        coordinator_address=address, num_processes=world_size, process_id=rank, **keywords
    )
    # Run before JAX's own, which waits for all processes.
    atexit.register(_leave_after_failure)


def _leave_after_failure() -> None:
    """End this process if its program failed; the launcher knows that already."""
    code = outcome.announced
    if code is None and isinstance(getattr(sys, "last_value", None), Exception):
        code = 1  # of an interpreter that was started as a command, without our bootstrap
    if code is None:
        return
    import logging

    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            pass  # its reader has gone, or it is closed
    os._exit(code)


def _variable(name: str) -> str:
    value = os.environ.get(name, "")
    if not value:
        raise ProcessionError(
            f"procession.jax.initialize() is for the ranks of a group, and {name} is not set here: "
            "start this with `procession run -n N` or procession.run(..., nproc=N)"
        )
    return value


def _number(name: str) -> int:
    text = _variable(name)
    if not is_count(text):
        raise ProcessionError(f"{name}={text!r} is not a number")
    return int(text)
