"""`adopt`: torch's launchers become procession's, in this process and, if asked, below it."""

from __future__ import annotations

import os
import threading

from procession.adoption import children as environment
from procession.adoption import hooks

_lock = threading.Lock()
_all: list[Adoption] = []


class Adoption:
    """What `adopt` returns. As a context manager, it ends with the block."""

    def __init__(self, *, children: bool) -> None:
        with _lock:
            _all.append(self)
            hooks.install()
            self._children = children and environment.put(os.environ)

    def end(self) -> None:
        """Give torch its launchers back, unless another `adopt` still holds; may be called again.

        Ranks that were started meanwhile go on.
        """
        with _lock:
            if self not in _all:
                return
            _all.remove(self)
            if self._children:
                environment.take(os.environ)
            if not _all:
                hooks.uninstall()

    def __enter__(self) -> Adoption:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


def adopt(*, children: bool = False) -> Adoption:
    """Have procession start what this process asks torch's launchers to start.

    From now on, `torch.distributed.run`, `torch.distributed.launch`, `elastic_launch` and
    `launch_agent`, elastic's `start_processes`, and `spawn` and `start_processes` of
    `torch.multiprocessing` start groups of procession, whether or not torch is imported already,
    and whoever calls them. Parameters, results and the classes of exceptions are torch's.

    children: also in Python programs that this process starts from now on, by two variables of its
        environment (PYTHONPATH and PROCESSION_ADOPT); they need procession installed, and torch is
        left as it is in those that do not have it.

    It holds for good, or as a context manager until the end of the block:

        with procession.adopt():
            accelerate.notebook_launcher(train, num_processes=2)
    """
    return Adoption(children=children)
