"""What is to become of a group's output: a route and a prefix by rank, and the files."""

from __future__ import annotations

import os
from collections.abc import Mapping

from procession.output.rundir import RunDir
from procession.policy import Logs, Route
from procession.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    from procession.output.duplicate import Duplicates

    class Files(Protocol):
        """The files of a run; `RunDir` lays them out as torch does, others as they like.

        path: the run's directory. kept: whether its files stay when the run is over. fault: what
        the launcher could not write there, "" if nothing. (No attributes: `RunDir` may change its
        own.)
        """

        @property
        def path(self) -> str:
            """The run's directory."""
            ...

        @property
        def kept(self) -> bool:
            """Whether the files stay."""
            ...

        @property
        def fault(self) -> str:
            """What could not be written."""
            ...

        def make_rank_dir(self, attempt: int, rank: int) -> None:
            """Make the directory of a rank's files. Raises OSError."""
            ...

        def error_file(self, attempt: int, rank: int) -> str:
            """Give the path of a rank's error file."""
            ...

        def log_file(self, attempt: int, rank: int, stream: str) -> str:
            """Give the path of a rank's `stdout` or `stderr`."""
            ...

        def open_log(self, attempt: int, rank: int, stream: str) -> int:
            """Open that file for the rank. Raises OSError."""
            ...

        def write_run(self, asked: Mapping[str, Any]) -> None:
            """Write down what was asked."""
            ...

        def write_event(self, event: Mapping[str, Any]) -> None:
            """Write down what happened."""
            ...

        def write_stacks(self, attempt: int, text: str) -> str:
            """Write down where ranks were when an attempt failed; gives the path, "" for none."""
            ...

        def write_end(self, result: Mapping[str, Any], report: str) -> None:
            """Write down how it ended."""
            ...

        def close(self) -> None:
            """Close everything, and remove what does not stay."""
            ...


class Output(Value):
    """Routes of stdout and stderr, and the prefix of lines on the console, by rank; the files.

    duplicates: what copies some of the teed lines; the group closes it.
    """

    routes: list[tuple[Route, Route]]
    prefixes: list[str]
    files: Files
    duplicates: Duplicates | None = None


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
    template = logs.template(nproc) or ""
    first, size, local = world or (0, nproc, 0)
    width = len(str(size - 1))
    host = os.uname().nodename if "{host" in template else ""
    prefixes = [
        template.format(
            rank=first + r, local_rank=local + r, width=width, name=name, node=node, host=host
        )
        for r in range(nproc)
    ]
    files = RunDir(logs, nproc, directory_name, place, attempt)
    duplicates = None
    if logs.duplicate_stdout or logs.duplicate_stderr:
        from procession.output.duplicate import Duplicates

        texts = {"stdout": logs.duplicate_stdout, "stderr": logs.duplicate_stderr}
        duplicates = Duplicates(texts, files.filtered_file)
    return Output(logs.route(nproc), prefixes, files, duplicates)
