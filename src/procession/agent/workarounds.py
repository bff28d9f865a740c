"""Faults of libraries that show more often after early imports, and what is done about them.

torch (seen in 2.13.0). After the last collective operation a thread of Gloo gives up an object of
Python, for which it needs the interpreter's lock. If `destroy_process_group` returns meanwhile, and
a model of DistributedDataParallel is then freed, the main thread frees the process group, holds the
lock, and waits for that thread: the rank never ends. Where a rank imports torch for itself, what
its first step still imports keeps the two apart. So in ranks that have all imports from the
beginning, that function first gives the lock away for a moment. By itself, torch hangs in the same
way if a script begins with `import torch._dynamo`.

Rejected: not to import `torch._dynamo` before, which is most of what a second run gains.
"""

from __future__ import annotations

import sys
import time

TYPE_CHECKING = False  # `typing` takes 7 ms to import, which every launch would pay
if TYPE_CHECKING:
    from typing import Any

MODULE, NAME = "torch.distributed.distributed_c10d", "destroy_process_group"
MOMENT = 0.03  # seconds


def apply() -> None:
    """Change what was imported, wherever it is known by its name. To be called after imports."""
    destroy: Any = getattr(sys.modules.get(MODULE), NAME, None)
    if destroy is None or hasattr(destroy, "procession_waits"):
        return
    from functools import wraps

    @wraps(destroy)
    def destroy_process_group(*args: Any, **kwargs: Any) -> Any:
        time.sleep(MOMENT)  # without the lock
        return destroy(*args, **kwargs)

    destroy_process_group.__dict__["procession_waits"] = True
    for module in list(sys.modules.values()):
        names: dict[str, Any] = getattr(module, "__dict__", {})
        if names.get(NAME) is destroy:
            names[NAME] = destroy_process_group
