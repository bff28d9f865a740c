"""What the ranks of a group share: a value that is loaded once, before they are forked.

Theory of operation. The agent calls the set-up that its group names (`agent.sharing`) and
keeps the value here; ranks are forks of it, and find the value in their memory. A rank that is a
fresh interpreter finds nothing, and loads for itself. Where the set-up raised, the first rank that
is forked raises the same: so it is reported, described and restarted as any failure of a rank is.

What is common to the ranks of an attempt (see `setup`) has a dict `shared` with these keys:
    name   of the set-up, for messages
    env    the variables that all ranks have
    call   for a script or module: (module, function, args, kwargs); None for a function, whose
           set-up is in the memory file `shared` of each job
"""

from __future__ import annotations

import gc

TYPE_CHECKING = False  # `typing` takes 7 ms to import, which every launch would pay
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    T = TypeVar("T")
    Held = tuple[Any, Callable[..., Any], tuple[Any, ...], dict[str, Any]]


held: Held | None = None  # what ranks share, and the call that made it
failure: BaseException | None = None


def hold(found: Held) -> None:
    """Keep a value for the ranks of this process, for ever.

    A list that holds itself and is frozen is never collected. So the value outlives the modules of
    an interpreter that ends: to destroy a large value would copy all its pages in each rank.
    """
    global held
    held = found
    for_ever: list[Any] = [found[0]]
    for_ever.append(for_ever)
    gc.collect()
    gc.freeze()


def raise_failure() -> None:
    """Raise what the set-up raised in the process that this one is a fork of, if it did."""
    if failure is not None:
        raise failure


def once(load: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
    """Give `load(*args, **kwargs)`, from the ranks' common memory where it was loaded for all.

    It was, if the launch names this call: `procession run --shared 'data:load("train.bin")'`, for
    the same function and equal arguments, by position or by name alike. Otherwise `load` is called:
    without procession, in a launch that does not name it, and where what was loaded may not be
    shared.
    """
    if held is not None:
        value, *call = held
        try:
            if call == [load, args, kwargs]:
                return value
        except Exception:
            pass  # an argument that does not compare
    return load(*args, **kwargs)


def of_rank(unpickle: Callable[[], Callable[[], Any]]) -> tuple[Callable[..., Any], Any]:
    """Give the set-up of a function's ranks, and its value: what is held, else loaded now.

    unpickle: gives the set-up, where it is needed.
    """
    global failure
    if held is not None:
        return held[1], held[0]
    try:
        load = unpickle()
        return load, load()
    except BaseException as e:
        failure = e
        raise
