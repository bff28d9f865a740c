"""Ranks of a script from the command line, by procession, torchrun and the limit."""

from collections.abc import Callable

from measure import PROCESSION, PYTHON, TORCHRUN, alternate, ask, limit, program, run
from script import Plan


def start(
    plan: Plan, ranks: int, script: str, said: Callable[[str], int], modules: str = ""
) -> dict[str, list[float]]:
    """Give the seconds of each side.

    said: how many ranks have said what they should. modules: what the limit imports before it
    forks; without any, it starts interpreters.
    """
    count, path = str(ranks), program(script)

    def launch(*command: str) -> float:
        seconds, text = run([*command, path])
        if said(text) != ranks:
            raise RuntimeError(f"{said(text)} of {ranks} ranks spoke:\n{text}")
        return seconds

    def by_hand() -> float:
        if modules:
            return launch(PYTHON, limit("fork_ranks"), count, modules)
        return ask(limit("spawn_wait"), count, "", PYTHON, path)

    return alternate(
        {
            "ours": lambda: launch(*PROCESSION, "-n", count),
            "peer": lambda: launch(*TORCHRUN, "--nproc-per-node", count),
            "limit": by_hand,
        },
        plan.repeat,
    )
