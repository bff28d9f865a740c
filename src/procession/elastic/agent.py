"""What torch's `launch_agent` does where its callers have adopted procession.

Theory of operation. A `LaunchConfig` becomes groups of procession: one for each attempt.

torch's agent on one machine hosts the store where its ranks meet, gives each rank its variables,
starts the ranks, looks at them every 0.1 s, and starts them again after a failure. Here, the store
is the same, and the ranks of an attempt are a `PContext` of `procession.elastic`: log files,
prefixes, signals and error files are those that torch's callers know. A command `python script.py`
becomes ranks that are forked from an interpreter which has made the script's imports.

What is not done here is left to torch's agent; it starts its ranks by `start_processes`, which is
ours as well.
"""

from __future__ import annotations

import logging
import os
import sys
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from string import Template
from types import FunctionType
from typing import Any, cast

from procession.adoption import hooks
from procession.elastic.context import PContext, RunProcsResult
from procession.elastic.ranks import (
    MultiprocessContext,
    PythonContext,
    SubprocessContext,
    python_program,
)
from procession.values.environment import Node, rank_environment
from procession.values.policy import Stop

SIGNALS = "TORCHELASTIC_SIGNALS_TO_HANDLE"
TIMER, HEALTH = "TORCHELASTIC_ENABLE_FILE_TIMER", "TORCHELASTIC_HEALTH_CHECK_PORT"
SLEEP = "TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT"
AGENTS = "torch.distributed.elastic.agent.server.local_elastic_agent"
LOOPBACK = "127.0.0.1"
# What `rank_environment` has beyond torch's variables.
NOT_TORCHS = ("TORCHELASTIC_ERROR_FILE", "PYTHONUNBUFFERED")
THREADS = "OMP_NUM_THREADS"
# Fields that the configuration of an older torch does not have.
OF_NEWER = ("numa_options", "duplicate_stdout_filters", "duplicate_stderr_filters")

log = logging.getLogger("procession.adoption")


def launch_agent(
    config: Any, entrypoint: Any, args: Iterable[Any], health_check_server: Any = None
) -> dict[int, Any]:
    """Do as torch's function of this name, or have torch do it."""
    torchs: Any = hooks.original(hooks.AGENT)
    args = list(args)
    why = why_not(torchs.__globals__, config, entrypoint, health_check_server)
    if not why:
        return launch(torchs.__globals__, config, entrypoint, args)
    log.warning("this launch is left to torch's agent: %s [P415]", why)
    more = () if health_check_server is None else (health_check_server,)
    return torchs(config, entrypoint, args, *more)


def why_not(torchs: Mapping[str, Any], config: Any, entrypoint: Any, health: Any) -> str:
    """Say why a launch cannot be exactly what torch would make of it, "" if it can.

    torchs: the names in the module of `launch_agent`. health: its `health_check_server`.
    """
    backend = config.rdzv_backend
    agent: Any = torchs.get("LocalElasticAgent")
    if config.max_nodes != 1 or config.min_nodes != 1:
        return f"it is for several machines ({config.min_nodes} to {config.max_nodes})"
    if backend not in ("static", "c10d"):
        return f"its rendezvous is {backend!r}"
    if backend == "static" and (_endpoint(config) is None or config.rdzv_configs.get("rank") != 0):
        return f"its endpoint {config.rdzv_endpoint!r} or its rank is none for one machine"
    if getattr(agent, "__module__", "") != AGENTS:
        return f"its agent is {agent!r}, not torch's own"
    changed = _changed(agent)
    if changed:
        return f"somebody has changed {changed} of torch's agent"
    handler = _handler(backend)
    if handler is not None and not _is_torchs(handler):
        return f"its rendezvous {backend!r} is made by {handler!r}, not by torch's own function"
    if health is not None or HEALTH in os.environ:
        return "it has a health check server, which asks torch's agent"
    if os.environ.get(TIMER) == "1":
        return f"{TIMER} asks for torch's watchdog"
    if SLEEP in os.environ:
        return f"{SLEEP} has torch's agent look for ranks in uninterruptible sleep"
    if getattr(config, "event_log_handler", "null") != "null" or config.metrics_cfg:
        return "it has a handler of torch's events or metrics"
    if getattr(config, "virtual_local_rank", False):
        return "it asks for virtual local ranks"
    if not (callable(entrypoint) or (isinstance(entrypoint, str) and entrypoint)):
        return f"there is nothing to run: {entrypoint!r}"
    if config.nproc_per_node < 1:
        return f"nproc_per_node is {config.nproc_per_node}"
    return ""


def _changed(agent: type) -> str:
    """Name a method of torch's agent that is not torch's, "" if there is none."""
    for kind in agent.__mro__:
        for name, value in vars(kind).items():
            if isinstance(value, FunctionType) and kind is not object and not _is_torchs(value):
                return name
    return ""


def _handler(backend: str) -> Any:
    """Give what makes torch's rendezvous of this name, None if that is not known."""
    module = sys.modules.get("torch.distributed.elastic.rendezvous")
    registry: Any = getattr(module, "rendezvous_handler_registry", None)
    return getattr(registry, "_registry", {}).get(backend)


def _is_torchs(function: Any) -> bool:
    # Methods that Python makes have no module of torch's: those of `abc` and `typing`.
    return getattr(function, "__module__", "").partition(".")[0] in ("torch", "abc", "typing")


def launch(
    torchs: Mapping[str, Any], config: Any, entrypoint: Any, args: Sequence[Any]
) -> dict[int, Any]:
    """Run a launch of which `why_not` says nothing; gives the ranks' values.

    Raises torch's ChildFailedError if ranks have failed and no restart is left.
    """
    if not config.run_id:
        config.run_id = str(uuid.uuid4().int)
    os.environ[SIGNALS] = config.signals_to_handle  # for good, as torch does it
    name = entrypoint_name(entrypoint, args)
    attempt = 0
    while (result := _attempt(config, name, entrypoint, args, attempt)).is_failed():
        if attempt >= config.max_restarts:
            raise torchs["ChildFailedError"](name=name, failures=result.failures)
        failed, left = next(iter(result.failures)), config.max_restarts - attempt
        log.warning("rank %s of %s failed; restarts left: %s", failed, name, left)
        attempt += 1
    return result.return_values


def _host_store(config: Any) -> tuple[str, Any]:
    """Give address and store of an attempt; the store outlives a rank 0 that ends early."""
    static = config.rdzv_backend == "static"
    address, port = (_endpoint(config) if static else None) or (config.local_addr or LOOPBACK, 0)
    made: Any = sys.modules["torch.distributed"].TCPStore
    return address, made(address, port, is_master=True, wait_for_workers=False, multi_tenant=static)


def _attempt(
    config: Any, name: str, entrypoint: Any, args: Sequence[Any], attempt: int
) -> RunProcsResult:
    address, store = _host_store(config)  # a new one: torch would find ranks that are gone in it
    lives = attempt, config.max_restarts
    node = Node(0, 1, address, store.port, config.role, config.run_id, *lives)
    context = _make_context(config, name, entrypoint, args, node)
    grace = getattr(config, "shutdown_timeout", None)
    if grace is not None:
        context.stop = Stop(grace=grace, patience=None)
    try:
        context.start()
        result = context.wait()
    except BaseException as e:
        context.close(getattr(e, "sigval", None), 30 if grace is None else grace)
        raise
    finally:
        del store
    assert result is not None
    return result


def _make_context(
    config: Any, name: str, entrypoint: Any, args: Sequence[Any], node: Node
) -> PContext:
    """Make the ranks of an attempt, not started yet."""
    ranks = range(config.nproc_per_node)
    words = {rank: tuple(_substituted(arg, rank) for arg in args) for rank in ranks}
    template = getattr(config, "log_line_prefix_template", None)
    fields = {"role_name": config.role, "hostname": os.uname().nodename}
    prefixes = template and {
        rank: Template(template).safe_substitute(fields, rank=rank, local_rank=rank)
        for rank in ranks
    }
    common: dict[str, Any] = {
        "name": config.role,
        "envs": {rank: _variables(node, rank, len(ranks)) for rank in ranks},
        "logs_specs": config.logs_specs,
        "log_line_prefixes": prefixes,
        **{name: getattr(config, name, None) for name in OF_NEWER},
    }
    if not isinstance(entrypoint, str):
        function = cast("Callable[..., Any]", entrypoint)
        return MultiprocessContext(
            entrypoint=function, args=words, start_method=config.start_method, **common
        )
    found = python_program(entrypoint, args)
    if found is not None and not any("$" in word for word in args[: found[1]]):
        program, first = found
        words = {rank: given[first:] for rank, given in words.items()}
        return PythonContext(program, name, args=words, **common)
    return SubprocessContext(entrypoint=entrypoint, args=words, **common)


def _variables(node: Node, rank: int, nproc: int) -> dict[str, str]:
    """Give torch's variables of a rank, whose store is there already."""
    env = rank_environment(node, rank, nproc, node.role, os.environ)
    left_out = NOT_TORCHS if THREADS in os.environ else (*NOT_TORCHS, THREADS)
    env["TORCHELASTIC_USE_AGENT_STORE"] = "True"
    return {name: value for name, value in env.items() if name not in left_out}


def entrypoint_name(entrypoint: Any, args: Sequence[Any]) -> str:
    """Give the name by which torch reports what is run."""
    if callable(entrypoint):
        return str(getattr(entrypoint, "__name__", type(entrypoint).__name__))
    if entrypoint == sys.executable:
        return next((str(arg) for arg in args if not str(arg).startswith("-")), "")
    return str(entrypoint)


def _substituted(arg: Any, rank: int) -> Any:
    return Template(arg).safe_substitute(local_rank=rank) if isinstance(arg, str) else arg


def _endpoint(config: Any) -> tuple[str, int] | None:
    """Read the address of a static rendezvous, None if torch would not take it either."""
    host, _, port = config.rdzv_endpoint.strip().rpartition(":")
    if not host or not port.isdecimal() or len(port) > 5:
        return None
    return host.strip("[]"), int(port)
