"""Which worker of pytest-xdist a process works for.

A template that is not a fork of its own worker, but of the stem of all workers (`meeting`), takes
over from its worker what is different in each: variables, the working directory, the name.
"""

from __future__ import annotations

import os
import pickle
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


def identity_of(config: Any) -> dict[str, Any]:
    """Give what distinguishes this worker from the others, as far as it can travel."""
    given: dict[str, Any] = config.workerinput
    return {
        "variables": dict(os.environ),
        "directory": os.getcwd(),
        "input": {name: value for name, value in given.items() if _can_travel(value)},
        "basetemp": config.option.basetemp,
    }


def _can_travel(value: Any) -> bool:
    try:
        pickle.dumps(value)
    except Exception:
        return False
    return True


def take(config: Any, identity: dict[str, Any]) -> None:
    """Work for the worker with this identity from now on."""
    use_variables(identity["variables"])
    os.chdir(identity["directory"])
    config.workerinput.clear()
    config.workerinput.update(identity["input"])
    config.option.basetemp = identity["basetemp"]


def use_variables(variables: dict[str, str]) -> None:
    """Have these variables and no others."""
    os.environ.clear()
    os.environ.update(variables)
    time.tzset()


def pipes_of(config: Any) -> list[int]:
    """Give the descriptors by which a worker talks to the session's controller.

    Raises AttributeError or ValueError where this pytest-xdist has them elsewhere.
    """
    for plugin in config.pluginmanager.get_plugins():
        if type(plugin).__name__ == "WorkerInteractor":
            io = plugin.channel.gateway._io
            return [io.infile.fileno(), io.outfile.fileno()]
    raise ValueError("no plugin of a worker")


def let_go_of(pipes: Sequence[int]) -> None:
    """Have pipes no more. The controller learns by the end of its pipe that a worker is gone."""
    nowhere = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for fd in pipes:
        os.dup2(nowhere, fd, inheritable=False)
    os.close(nowhere)
