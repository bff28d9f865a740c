"""`adopt`: torch's launchers become procession's, in this process and, if asked, below it.

Other interpreters find two variables at their start. PYTHONPATH leads to the directory `startup`,
whose `sitecustomize` every interpreter runs that obeys that variable (not `python -I`, `-E` or
`-S`); in a virtual environment, too. PROCESSION_ADOPT has it adopt, and is the pid of the program
that says so where it cannot import procession.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from procession.adoption import hooks

PATH = "PYTHONPATH"
STARTUP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "startup")


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
        os.environ.update(variables(os.environ))


def variables(env: Mapping[str, str]) -> dict[str, str]:
    """Give the variables by which interpreters adopt. env: where they will stand."""
    paths = [path for path in env.get(PATH, "").split(os.pathsep) if path and path != STARTUP]
    return {"PROCESSION_ADOPT": str(os.getpid()), PATH: os.pathsep.join([STARTUP, *paths])}
