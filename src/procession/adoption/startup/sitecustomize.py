"""What an interpreter runs at its start where `adopt` reaches it through PYTHONPATH.

`adopting.variables` puts this directory first there. The module of this name that the interpreter
would have run otherwise is run as well, and of this directory nothing is left in `sys.path`.
"""

import os
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec


def _adopt() -> None:
    wanted = os.environ.get("PROCESSION_ADOPT")
    if not wanted:
        return
    try:
        from procession.adoption import hooks
    except ImportError as e:
        if wanted == str(os.getpid()):  # this one was meant, and not only what it starts
            print(
                f"procession adopt: {sys.executable} cannot import procession ({e}): torch's "
                "launchers stay as they are; install procession beside the program [P415]",
                file=sys.stderr,
            )
        return
    hooks.install()


def _run_the_other_one() -> None:
    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        module = module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [path for path in sys.path if path != HERE]
_adopt()
_run_the_other_one()
