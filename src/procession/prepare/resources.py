"""What one run needs beside processes: its directory, streams, board, memory files and places."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from procession.output.plan import Output, output_of
from procession.output.rundir import directory_name, run_of
from procession.output.wiring import Wiring
from procession.prepare.board import Board
from procession.prepare.payload import Payload
from procession.prepare.placing import Placed, Places
from procession.values.environment import Place, given_run_id, rank_environment
from procession.values.spec import Spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from procession.output.plan import Files

    Environment = Callable[[int, int], Mapping[str, str]]


class Resources:
    """The files and descriptors of one run; `close` gives them back.

    payload: makes what the ranks run; None: it is made from the spec.

    environments: to be filled by handlers of events: each gives more variables for an attempt and
    a rank. Raises SpecError, and OSError.
    """

    def __init__(
        self,
        spec: Spec,
        places: Places,
        output: Output | None,
        payload: Callable[[], Payload] | None,
    ) -> None:
        self.places = places
        self.environments: list[Environment] = []
        # To be closed in this order.
        self._owned: list[Payload | Files | Wiring | Board | Places] = []
        try:
            self.board = Board(spec.nproc)
            self._owned.append(self.board)
            self.payload = payload() if payload is not None else _payload_of(spec)
            self._owned += [self.payload, places]
            output = output or planned_output(spec)
            self.run_dir = output.files
            self._owned.append(self.run_dir)
            python = [spec.runs_python(rank) for rank in range(spec.nproc)]
            self.streams = Wiring(output, spec.stdin, python)
            self._owned.insert(0, self.streams)
            self.run_id = spec.node.job or run_of(self.run_dir.path)
            self._spec = spec
            if self.run_dir.kept:
                self.run_dir.write_run(self.asked())
            places.prepare()
        except BaseException:
            self.close()
            raise

    def given(self, attempt: int, rank: int) -> dict[str, str]:
        """Give the variables that handlers have for a rank; these may take long."""
        env: dict[str, str] = {}
        for give in self.environments:
            env |= give(attempt, rank)
        return env

    def asked(self) -> dict[str, object]:
        """Give what `run.json` holds."""
        from procession.prepare.asked import asked_of_group

        return asked_of_group(self._spec, self.run_id)

    def close(self) -> None:
        """Give everything back."""
        for each in self._owned:
            each.close()
        self._owned.clear()


def _payload_of(spec: Spec) -> Payload:
    payload = Payload()
    payload.make(spec)
    return payload


def variables_of(spec: Spec, env: Mapping[str, str], placed: Placed) -> list[dict[str, str]]:
    """Give the variables of each rank, as far as they are known before an attempt.

    env: the launcher's. placed: what ranks get of the machine.
    """
    where = Place(spec.node.address, spec.node.port, "", 0, spec.restart.max, placed.cores)
    found: list[dict[str, str]] = []
    for rank, own in enumerate(spec.env):
        given = rank_environment(where, rank, spec.nproc, role_of(env), "", env, spec.node)
        both = {**env, **given, **placed.variables(rank, env), **own}
        found.append({name: value for name, value in both.items() if value is not None})
    return found


def planned_output(spec: Spec, place: str = "") -> Output:
    """Plan the output of a group by its `Logs`, and make its directory. Raises OSError.

    place: the directory, where the group is one attempt of a job; see `output_of`.
    """
    called = spec.node.run_id or given_run_id(os.environ) or spec.name
    node = spec.node
    world = node.first(spec.nproc), node.size(spec.nproc), node.local
    directory = directory_name(called, os.environ)
    return output_of(
        spec.logs, spec.nproc, spec.name, directory, world, node.rank, place, node.attempt
    )


def role_of(env: Mapping[str, str]) -> str:
    """Give the role of ranks that are asked for by a process with these variables."""
    return env.get("ROLE_NAME", "default")
