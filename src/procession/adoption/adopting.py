"""`adopt`: torch's launchers become procession's, in this process and, if asked, below it."""

from __future__ import annotations

import os

from procession.adoption import children as environment
from procession.adoption import hooks


def adopt(*, children: bool = False) -> None:
    """Have procession start what this process asks torch's launchers to start.

    From now on, `torch.distributed.run`, `torch.distributed.launch`, `elastic_launch` and
    `launch_agent`, elastic's `start_processes`, and `spawn` and `start_processes` of
    `torch.multiprocessing` start groups of procession, whether or not torch is imported already,
    and whoever calls them. Parameters, results and the classes of exceptions are torch's.

    children: also in Python programs that this process starts from now on, by two variables of its
        environment (PYTHONPATH and PROCESSION_ADOPT); they need procession installed, and torch is
        left as it is in those that do not have it.

    It holds for good; to call it again is harmless.

        procession.adopt()
        accelerate.notebook_launcher(train, num_processes=2)
    """
    hooks.install()
    if children:
        os.environ.update(environment.variables(os.environ, environment.EVERYBODY))
