"""Lets `pdb` in a rank talk with whoever debugs it: nothing is imported before it is used.

Theory of operation. A rank has no terminal, and its standard input is empty. So the class `Pdb` of
the standard library gets other streams when it would take those of the process: `breakpoint()`,
`pdb.set_trace()`, `pdb.post_mortem()` and what is derived from it work as ever. A program that
imports `pdb` later is found out by a finder at the beginning of `sys.meta_path`, which costs each
import a comparison of its name.
"""

from __future__ import annotations

import os
import signal
import sys

TYPE_CHECKING = False  # `typing` takes 7 ms to import, which every launch would pay
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

POST_MORTEM = "PROCESSION_POST_MORTEM"  # a variable: a rank that raises is debugged
PORT = "PROCESSION_DEBUGPY_PORT"  # a variable: where rank 0 of a machine waits for editors
HALT = 50  # a real-time signal: it stops a rank that runs

debugs_failures = False  # whether `POST_MORTEM` was there


def offer() -> None:
    """Have `pdb` talk over the channel of this rank."""
    global debugs_failures
    debugs_failures = os.environ.pop(POST_MORTEM, "") != ""
    signal.signal(HALT, _halt)
    if "pdb" in sys.modules:
        _teach(sys.modules["pdb"])
    else:
        sys.meta_path.insert(0, _Finder())


def listen(port: int) -> None:
    """Wait for an editor at a port of this machine. Raises RuntimeError if it is taken."""
    debugger: Any = __import__("debugpy")  # only this option needs it
    debugger.listen(("127.0.0.1", port))


def _halt(_number: int, frame: Any) -> None:
    from procession.worker.debugging import halt

    halt(frame)


class _Finder:
    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != "pdb":
            return None
        from importlib.util import find_spec

        sys.meta_path.remove(self)  # pyright: ignore[reportArgumentType]
        spec = find_spec(name)
        if spec is not None:
            _teach_when_loaded(spec.loader)
        return spec


def _teach_when_loaded(loader: Any) -> None:
    plain = loader.exec_module

    def exec_module(module: Any) -> None:
        del loader.exec_module
        plain(module)
        _teach(module)

    loader.exec_module = exec_module


def _teach(module: Any) -> None:
    cls = module.Pdb
    plain: Callable[..., None] = cls.__init__
    going, leaving, interactive = cls.set_continue, cls.set_quit, cls.do_interact

    def init(self: Any, completekey: str = "tab", stdin: Any = None, stdout: Any = None,
             *args: Any, **options: Any) -> None:  # fmt: skip
        talk: Any = None
        if stdin is None and stdout is None:
            from procession.worker.debugging import talk_of

            stdin = stdout = talk = talk_of(self)
        plain(self, completekey, stdin, stdout, *args, **options)
        if talk is not None:
            self.nosigint = True  # SIGINT is for who stops the group

    def set_continue(self: Any) -> None:
        _tell_that_it_goes_on(self)
        going(self)

    def set_quit(self: Any) -> None:
        _tell_that_it_goes_on(self)
        leaving(self)

    def do_interact(self: Any, arg: str) -> None:
        streams = sys.stdin, sys.stdout, sys.stderr
        if hasattr(self.stdin, "goes_on"):
            sys.stdin = sys.stdout = sys.stderr = self.stdin
        try:
            interactive(self, arg)
        finally:
            sys.stdin, sys.stdout, sys.stderr = streams

    cls.__init__, cls.set_continue, cls.set_quit = init, set_continue, set_quit
    cls.do_interact = do_interact


def _tell_that_it_goes_on(debugger: Any) -> None:
    getattr(debugger.stdin, "goes_on", int)()
