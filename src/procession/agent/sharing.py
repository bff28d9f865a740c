"""The shared set-up of a group: run in its agent, before the first of its ranks is forked.

Theory of operation. It is run when the first rank is due, with that rank's output, directory and
the variables that all ranks have. What it gives is kept in memory (`worker.shared`), and ranks are
forks of this process. As after imports (`preload`), the process then inspects itself: if the set-up
has started something that does not survive a fork, the value is dropped, ranks are fresh
interpreters, and each of them loads for itself. If the set-up raises, the rank that was due raises
the same, and no other rank is forked until the launcher asks for that one again, or begins another
attempt.
"""

from __future__ import annotations

import gc
import os
import sys

from procession.agent.preload import (
    Preloaded,
    Surroundings,
    drop_finalizers,
    fault_of,
    sockets,
)
from procession.worker import program, shared

TYPE_CHECKING = False  # `typing` takes 7 ms to import, which every launch would pay
if TYPE_CHECKING:
    from typing import Any

    Job = dict[str, Any]


def is_due(common: Job, job: Job, preloaded: Preloaded | None) -> bool:
    """Whether the set-up of a group is to be run before this rank is started."""
    if "shared" not in common or job["kind"] != "python" or shared.held is not None:
        return False
    return preloaded is None or not preloaded.fault


def share(preloaded: Preloaded, common: Job, job: Job, fds: list[int]) -> None:
    """Run the set-up; its value, or what it raised, is left in `worker.shared`.

    preloaded: gets the variables that it set, and why no rank may be forked from this process.
    """
    described: Job = common["shared"]
    roles: dict[str, int] = job["fds"]
    before, what = sockets(), f"the shared set-up {described['name']}"
    surroundings = Surroundings(
        described["env"],
        _path(job["program"], common["cwd"]),
        common["cwd"],
        what,
        (fds[roles["stdout"]], fds[roles["stderr"]]),
    )
    own, found = os.getpid(), None
    shared.failure = None
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # pyright: ignore[reportUnnecessaryComparison] - closed ones
            stream.reconfigure(line_buffering=True)  # pyright: ignore
    try:
        with surroundings:
            found = _loaded(described, job, fds)
    except BaseException as e:
        shared.failure = _without_own_frames(e)
    if os.getpid() != own:
        os._exit(1)  # a child that the set-up has forked has come out of it
    preloaded.variables.update(surroundings.variables)
    fault = surroundings.fault or fault_of(what, before)
    if fault:  # then each rank finds out by itself what comes of the set-up
        preloaded.fault = f"{fault}{_threads()}" if fault.endswith(" thread") else fault
        found = shared.failure = None
        gc.collect()
    elif found is not None:
        drop_finalizers()
        shared.hold(found)


def _loaded(common: dict[str, Any], job: dict[str, Any], fds: list[int]) -> shared.Held:
    """Run the set-up of a group, in its agent. Raises what it raises.

    job, fds: of one of its ranks, and the descriptors that it names.
    """
    described: dict[str, Any] = job["program"]
    roles: dict[str, int] = job["fds"]
    main = sys.modules["__main__"]
    before = list(sys.argv)
    hidden = program.prefer(sys.path[0] if sys.path else "")
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = {}
    try:
        program.fresh_main()
        if common["call"] is None:
            sys.argv[:] = described["sys_argv"]
            program.know_sources(described["sources"])
            load = program.unpickled(os.dup(fds[roles["shared"]]))
            program.fill_main(load, [])
        else:
            sys.argv[:] = [described.get("path") or described["name"], *described["args"]]
            module, function, args, kwargs = common["call"]
            __import__(module)
            load = getattr(sys.modules[module], function)
        return load(*args, **kwargs), load, args, kwargs
    except SystemExit as e:
        said = f"{common['name']} called sys.exit({e.code!r})"
        raise RuntimeError(said) from _without_own_frames(e)
    finally:
        sys.argv[:] = before
        sys.modules["__main__"] = main
        sys.modules.update(hidden)


def _without_own_frames(error: BaseException) -> BaseException:
    tb = error.__traceback__
    while tb is not None and tb.tb_frame.f_code.co_filename == __file__:
        tb = tb.tb_next
    return error.with_traceback(tb)


def _path(described: Job, cwd: str) -> list[str]:
    """Give the `sys.path` that ranks have when their program begins."""
    if described["kind"] == "function":
        return described["sys_path"]
    if sys.flags.isolated or getattr(sys.flags, "safe_path", False):
        return list(sys.path)
    if described["kind"] == "module":
        return [cwd, *sys.path]
    path = os.path.realpath(os.path.join(cwd, described["path"]))
    return [path if os.path.isdir(path) else os.path.dirname(path), *sys.path]


def _threads() -> str:
    """Name the threads of this process that Python knows."""
    threading: Any = sys.modules.get("threading")
    every = threading.enumerate() if threading is not None else ()
    names = {each.name for each in every if each is not threading.main_thread()}
    return f" ({', '.join(sorted(names)[:3])})" if names else ""
