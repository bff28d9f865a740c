"""The program of a rank: a script, a module or a function, run as Python itself would run it."""

from __future__ import annotations

import os
import pickle
import sys
from types import FunctionType, ModuleType

from procession.worker.byvalue import MAIN, set_inherited

TYPE_CHECKING = False  # `typing` takes 7 ms to import, which every launch would pay
if TYPE_CHECKING:
    from typing import Any

    Job = dict[str, Any]

# What an interpreter imports before it looks at its program: nothing on the path replaces it.
LOADED_AT_START = frozenset(
    ("__main__", "_collections_abc", "_sitebuiltins", "_weakrefset", "abc", "codecs", "encodings",
     "genericpath", "importlib", "io", "ntpath", "os", "posixpath", "site", "stat", "zipimport")
)  # fmt: skip

# For the start method `fork`: what the launcher was asked to run, in the inherited memory.
live: Any = None  # function, arguments by rank, and those by name


def run_script(program: Job) -> None:
    """Run a script (or a directory or zip file with a `__main__.py`) as `python PATH ARGS`."""
    path: str = program["path"]
    sys.argv[:] = [path, *program["args"]]
    _as_started(path, *program["args"])
    if os.path.isdir(path) or _is_archive(path):
        import runpy

        _search_first(os.path.join(os.getcwd(), path))  # it may change its directory
        fresh_main()
        # What Python itself calls here; see `run_module`.
        runpy._run_module_as_main("__main__", alter_argv=False)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
        return
    if not _isolated():
        _search_first(os.path.dirname(os.path.realpath(path)))
    main = fresh_main()
    code = _compiled(os.path.join(os.getcwd(), path), main)
    exec(code, main.__dict__)


def _compiled(path: str, main: ModuleType) -> Any:
    import importlib.machinery

    main.__file__ = path
    main.__dict__["__cached__"] = None
    if path.endswith(".pyc"):
        main.__loader__ = loader = importlib.machinery.SourcelessFileLoader("__main__", path)
        return loader.get_code("__main__")
    main.__loader__ = loader = importlib.machinery.SourceFileLoader("__main__", path)
    return loader.source_to_code(loader.get_data(path), path)


def _is_archive(path: str) -> bool:
    """Whether this is a zip file, also behind an interpreter line, as Python itself looks."""
    if path.endswith(".py"):
        return False
    import zipimport

    try:
        zipimport.zipimporter(path)
    except ImportError:
        return False
    return True


def _search_first(directory: str) -> None:
    """Put a directory before all others on the path, also before modules that are loaded already.

    A program may have a `json.py` of its own; a new interpreter would not have loaded another one.
    """
    sys.path.insert(0, directory)
    prefer(directory)


def prefer(directory: str) -> dict[str, ModuleType]:
    """Forget modules in whose place this directory has others; gives what was forgotten."""
    try:
        own = {name.partition(".")[0] for name in os.listdir(directory)}
    except OSError:
        return {}  # an archive
    hidden = own & sys.stdlib_module_names - LOADED_AT_START - set(sys.builtin_module_names)
    if not hidden:
        return {}  # to look at all modules would copy the pages that hold their names
    names = [name for name in sys.modules if name.partition(".")[0] in hidden]
    return {name: sys.modules.pop(name) for name in names}


def _isolated() -> bool:
    return bool(sys.flags.isolated or getattr(sys.flags, "safe_path", False))


def fresh_main() -> ModuleType:
    """Replace the bootstrap's `__main__` by an empty one, as a new interpreter has it."""
    import builtins

    main = ModuleType("__main__")
    main.__dict__["__builtins__"] = builtins
    main.__dict__["__annotations__"] = {}
    sys.modules["__main__"] = main
    if "__mp_main__" in sys.modules:  # a second name of it, which multiprocessing gives
        sys.modules["__mp_main__"] = main
    return main


def _as_started(*words: str) -> None:
    """Have `sys.orig_argv` say the command that would run this program in a new interpreter.

    Programs start themselves again by it.
    """
    entry = (n for n, w in enumerate(sys.orig_argv) if w.endswith("/procession/agent/entry.py"))
    options = sys.orig_argv[: next(entry, 1)]
    sys.orig_argv[:] = [*(w for w in options if w != "-u"), *words]


def run_module(program: Job) -> None:
    """Run a module as `python -m NAME ARGS`."""
    import runpy

    sys.argv[:] = [program["name"], *program["args"]]
    _as_started("-m", program["name"], *program["args"])
    if not _isolated():
        _search_first(os.getcwd())
    fresh_main()
    # What `python -m` itself calls: `runpy.run_module` would remove `__main__` at the end, while
    # threads and exit handlers still use it.
    runpy._run_module_as_main(program["name"], alter_argv=True)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]


def call_function(job: Job) -> Any:
    """Unpickle the function and its arguments, and call it."""
    program: Job = job["program"]
    if program["kind"] == "live":
        function, args, kwargs = live
        return function(*args[job["rank"]], **kwargs[job["rank"]])
    sys.path[:] = program["sys_path"]
    prefer(sys.path[0] if sys.path else "")
    sys.argv[:] = program["sys_argv"]
    sys.modules["__mp_main__"] = fresh_main()
    set_inherited(job["inherit"])
    if program["authkey"] is not None or "tracker" in job["fds"]:
        _join_multiprocessing(program["authkey"], job["fds"].get("tracker"))
    know_sources(program["sources"])
    function = unpickled(job["fds"]["common"])
    args, kwargs = unpickled(job["fds"]["own"])
    fill_main(function, [*args, *kwargs.values()])
    if "shared" in job["fds"]:
        from procession.worker import shared

        fd: int = job["fds"]["shared"]
        load, value = shared.of_rank(lambda: unpickled(fd))
        fill_main(load, [value])
        args = (value, *args)
    return function(*args, **kwargs)


def unpickled(fd: int) -> Any:
    """Unpickle what lies in a memory file, and close it."""
    return pickle.loads(read_all(fd))


def know_sources(sources: dict[str, list[str]]) -> None:
    """Remember the lines of notebook cells, which are in no file, for tracebacks."""
    if sources:
        import linecache

        for name, lines in sources.items():
            linecache.cache[name] = (sum(map(len, lines)), None, lines, name)


def fill_main(function: Any, values: list[Any]) -> None:
    """Put what came by value from the launcher's `__main__` into this rank's `__main__`.

    Otherwise it could not be pickled by name: for a pool of processes, or by `torch.save`.
    """
    main = sys.modules["__main__"].__dict__
    function = getattr(function, "func", function)  # of a functools.partial
    function = getattr(function, "__func__", function)  # of a method
    if isinstance(function, FunctionType) and function.__module__ in MAIN:
        for name, value in function.__globals__.items():
            main.setdefault(name, value)
        main.setdefault(function.__name__, function)
    for value in values:
        if type(value).__module__ in MAIN:
            main.setdefault(type(value).__name__, type(value))


def _join_multiprocessing(authkey: bytes | None, tracker: int | None) -> None:
    """Share the launcher's key (for managers) and its resource tracker (for shared memory)."""
    import multiprocessing

    if authkey is not None:
        multiprocessing.current_process().authkey = authkey
    if tracker is not None:
        from multiprocessing import resource_tracker

        resource_tracker._resource_tracker._fd = tracker  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]


def read_all(fd: int) -> bytes:
    """Read and close a memory file. It is opened again, since all ranks share its offset."""
    with open(f"/proc/self/fd/{fd}", "rb", 0) as f:
        os.close(fd)
        return f.read()
