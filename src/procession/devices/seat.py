"""One rank among those of its machine, and the lists that name the machine's devices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from procession.devices.topology import Topology
from procession.values.base import is_count
from procession.values.errors import SpecError

Variables = dict[str, str | None]  # to add to a rank's environment; None takes one away

LONGEST_NUMBER = 18  # digits
NO_DEVICES = "nodevfiles"  # what Slurm writes where it gives a job no GPU


@dataclass(frozen=True)
class Seat:
    """One rank, seen from its machine.

    local_rank, local_world_size: its number among the ranks of this machine, and their count.
    rank, world_size: the same among all machines.
    inherited: the environment that the rank starts from.
    count: how many devices of its kind the machine has; None: not known.
    endpoint: `host:port` for what needs a meeting point of its own (Neuron, JAX); "": none.
    topology: of the TPU; None: to be read from `inherited`.
    """

    local_rank: int
    local_world_size: int
    rank: int
    world_size: int
    inherited: Mapping[str, str]
    count: int | None = None
    endpoint: str = ""
    topology: Topology | None = None

    def defaults(self, values: Mapping[str, str]) -> Variables:
        """Give those of `values` that are not inherited already."""
        return {name: value for name, value in values.items() if name not in self.inherited}

    def device(self, variable: str) -> str:
        """Give the device of this rank: the local-rank-th that `variable` names.

        Where it is not set, devices are numbered from 0. Raises SpecError.
        """
        return self.pick(variable, self.devices(variable))

    def devices(self, variable: str, *, numbers: bool = False) -> list[str] | None:
        """Give the devices that `variable` names, numbers only or not; None where it is not set."""
        text = self.inherited.get(variable)
        if text is None:
            return None
        words = read_devices(variable, text)
        if numbers and not all(map(is_number, words)):
            raise SpecError(f"{variable}={text!r} names what is not the number of a device")
        return words

    def pick(self, variable: str, named: list[str] | None) -> str:
        """Give this rank's of the devices that `variable` names. Raises SpecError."""
        if named is None:
            self._check(self.count, f"this machine has {self.count or 'none'}", variable)
            return str(self.local_rank)
        self._check(
            len(named), f"{variable}={self.inherited[variable]!r} names {len(named)}", variable
        )
        return named[self.local_rank]

    def _check(self, there: int | None, said: str, variable: str) -> None:
        if there is None or there >= self.local_world_size:
            return
        n = self.local_world_size
        hint = "" if there or variable in self.inherited else f"; {variable} can name them"
        need = f"{n} ranks need a device each" if n > 1 else "a rank needs a device"
        raise SpecError(f"{need}, but {said}{hint}")


def read_devices(variable: str, text: str) -> list[str]:
    """Read a list of devices: numbers, UUIDs or other names, in their order.

    As the drivers do, it ends where a negative number stands. Raises SpecError for a list that is
    empty, has a gap, or names a device twice.
    """
    devices: list[str] = []
    for part in text.split(","):
        word = part.strip()
        if word.casefold() == NO_DEVICES or (word[:1] == "-" and word[1:].isdecimal()):
            break
        devices.append(word)
    if not any(devices):
        raise SpecError(f"{variable}={text!r} hides all devices")
    if not all(devices):
        raise SpecError(f"{variable}={text!r} has a gap: there is no name between two commas")
    if len({str(int(w)) if is_number(w) else w.casefold() for w in devices}) < len(devices):
        raise SpecError(f"{variable}={text!r} names the same device twice")
    return devices


def is_number(word: str) -> bool:
    """Tell whether a device is named by its number."""
    return is_count(word, LONGEST_NUMBER)


def read_count(variable: str, text: str) -> int:
    """Read a count of 1 or more. Raises SpecError."""
    word = text.strip()
    if not (is_number(word) and int(word)):
        raise SpecError(f"{variable} must be a count of 1 or more, not {word!r}")
    return int(word)
