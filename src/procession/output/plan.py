"""Where a group's output goes: a route and a prefix by rank, and the files."""

from __future__ import annotations

import os

from procession.output.rundir import Files, RunDir
from procession.values.base import Value
from procession.values.policy import Logs, Route

TYPE_CHECKING = False
if TYPE_CHECKING:
    from procession.output.duplicate import Duplicates


class Output(Value):
    """Routes of stdout and stderr, and the prefix of lines on the console, by rank; the files.

    duplicates: what copies some of the teed lines; the group closes it.
    """

    routes: list[tuple[Route, Route]]
    prefixes: list[str]
    files: Files
    duplicates: Duplicates | None = None


def prefixes_of(
    logs: Logs, nproc: int, name: str, world: tuple[int, int, int] | None = None, node: int = 0
) -> list[str]:
    """Give what stands before the lines of each rank; world, node: see `output_of`."""
    template = logs.template(nproc) or ""
    first, size, local = world or (0, nproc, 0)
    width = len(str(size - 1))
    host = os.uname().nodename if "{host" in template else ""
    return [
        template.format(
            rank=first + r, local_rank=local + r, width=width, name=name, node=node, host=host
        )
        for r in range(nproc)
    ]


def output_of(
    logs: Logs,
    nproc: int,
    name: str,
    directory_name: str,
    world: tuple[int, int, int] | None = None,
    node: int = 0,
    place: str = "",
    attempt: int = 0,
) -> Output:
    """Plan the output of a group by its `Logs`; makes the run's directory. Raises OSError.

    world: where the group is one of several of a job, the number that its rank 0 has in the job,
        the size of the job, and the number of its rank 0 on this machine. node: its node's rank.
    place, attempt: the run's directory and the attempt in it, where the group is one attempt of a
        job that others start again; "": a new directory by `logs`.
    """
    prefixes = prefixes_of(logs, nproc, name, world, node)
    files = RunDir(logs, nproc, directory_name, place, attempt)
    duplicates = None
    if logs.duplicate_stdout or logs.duplicate_stderr:
        from procession.output.duplicate import Duplicates

        texts = {"stdout": logs.duplicate_stdout, "stderr": logs.duplicate_stderr}
        duplicates = Duplicates(texts, files.filtered_file)
    return Output(logs.route(nproc), prefixes, files, duplicates)
