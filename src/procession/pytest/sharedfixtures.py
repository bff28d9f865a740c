"""`@procession.pytest.shared`: fixtures that are made once, in the process that ranks are forks of.

Theory of operation. The decorator makes an ordinary fixture of session scope around the function,
and marks it. Before the first test that needs it, the agent calls the function and keeps the value
here; ranks are forked after that, and find it in their memory. In pytest's own
process, and in ranks that are fresh interpreters, nothing is kept, and the fixture calls the
function.
"""

from __future__ import annotations

import gc
import inspect
import os
import signal
from contextlib import suppress
from functools import wraps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# What was made in this process, or in the one that it is a fork of: function -> value, or None and
# what it raised.
made: dict[Any, tuple[Any, BaseException | None]] = {}


def shared(function: Callable[..., Any]) -> Any:
    """Make a fixture whose value is made once, before ranks are forked, and which all ranks share.

    function: gives the value; its parameters may only be other shared fixtures. What it changes in
    its process, such as the seed of a generator, is there in all ranks. It may start no thread and
    no process: ranks would not have them. Where it raises, each test that needs it fails with that.

    In tests without ranks it is a fixture of session scope. Raises TypeError for a generator: there
    is nobody to tear its value down.
    """
    if inspect.isgeneratorfunction(function) or inspect.iscoroutinefunction(function):
        raise TypeError(
            f"{function.__name__}: a shared fixture returns its value, and cannot yield or await: "
            "use a fixture of the ranks for what needs tearing down"
        )
    import pytest

    @wraps(function)
    def fixture(**needed: Any) -> Any:
        __tracebackhide__ = True
        if function not in made:
            made[function] = function(**needed), None
        return _value_of(function)

    fixture.__dict__["procession_shared"] = function
    return pytest.fixture(scope="session")(fixture)


def _value_of(function: Any) -> Any:
    __tracebackhide__ = True
    value, error = made[function]
    if error is not None:
        raise error
    return value


def needed_by(item: Any) -> dict[str, Any]:
    """Give the definitions of the shared fixtures of a test, by name."""
    found = item._fixtureinfo.name2fixturedefs.items()
    last = {name: definitions[-1] for name, definitions in found if definitions}
    return {n: each for n, each in last.items() if hasattr(each.func, "procession_shared")}


def make_for(item: Any, tell: Callable[[str], None]) -> None:
    """Make the shared fixtures of a test that are missing.

    tell: is called with the name of each before that is made, for it may end the process.
    """
    by_name, before = needed_by(item), len(made)
    for name in by_name:
        with suppress(BaseException):  # the ranks raise it
            _make(name, by_name, tell)
    if len(made) > before:
        gc.collect()
        gc.freeze()  # a collection in a rank must not touch, and so copy, what all share


def _called(name: str, function: Callable[..., Any], needed: dict[str, Any]) -> Any:
    """Call what a shared fixture is of. Raises RuntimeError if it has started a process or thread.

    Threads that only help (progress bars have some) are daemons, and may be missed.
    """
    __tracebackhide__ = True
    from procession.pytest import processes

    before, threads = processes.children_of(os.getpid()), processes.going_on()
    value = function(**needed)
    more = [each for each in processes.going_on() if each not in threads]
    known = (*before, *processes.helpers())
    started = [pid for pid in processes.children_of(os.getpid()) if pid not in known]
    if not (more or started):
        return value
    said = ", ".join([*(f"the thread {each}" for each in more), *map(processes.described, started)])
    for pid in started:
        os.kill(pid, signal.SIGKILL)  # it is a child of this process, and so there until ...
        os.waitpid(pid, 0)  # ... here
    raise RuntimeError(
        f"the shared fixture {name} has started {said}, which ranks would not have (processes were "
        "ended): start it in a fixture of theirs"
    )


def _make(name: str, by_name: dict[str, Any], tell: Callable[[str], None]) -> Any:
    """Give the value of a shared fixture, and of what it needs: made, where that is to be done.

    by_name: the definitions of the shared fixtures of a test.
    """
    __tracebackhide__ = True
    definition = by_name[name]
    function = definition.func.procession_shared
    if function in made:
        return _value_of(function)
    try:
        if odd := [each for each in definition.argnames if each not in by_name]:
            raise TypeError(
                f"the shared fixture {name} needs {odd[0]}, which is not shared: it is made before "
                "there are ranks"
            )
        needed = {each: _make(each, by_name, tell) for each in definition.argnames}
        tell(name)
        made[function] = _called(name, function, needed), None
    except BaseException as e:
        made[function] = None, e
    return _value_of(function)
