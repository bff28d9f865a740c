"""The value of each option, and where it was set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from procession.cli.words import Option
from procession.values.errors import SpecError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from procession.cli.words import Said

LAST = 5  # the rank of a source that all others go before


class Settings:
    """Values as they were given: texts, True or False for flags, lists for --env and its like.

    notes: lines to print about settings that are left out.
    """

    def __init__(self, options: Mapping[str, Option]) -> None:
        self.notes: list[str] = []
        self._options = options
        self._found: dict[str, tuple[Said, str, int]] = {}  # the value, its source, and its rank

    def add(self, key: str, value: Said, source: str = "", rank: int = LAST) -> None:
        """Take a value for an option that has none yet.

        source: where it is said, if elsewhere than on the command line. rank: of its kind of
        source, 1 or more; lower ones count more.

        Of an option that may be given several times, all values are kept; what was added first
        stands last, and so counts most.
        """
        before = self._found.get(key)
        if before is None:
            self._found[key] = (value, source, rank if source else 0)
        elif isinstance(value, list) and isinstance(before[0], list):
            self._found[key] = ([*value, *before[0]], *before[1:])

    def text(self, key: str) -> str:
        """Give an option's text, its default where it is not said; "" if it has none."""
        option = self._options[key]
        value, source, _ = self._found.get(key, (option.default, "", 0))
        return option.default if value == "" and source else str(value)

    def flag(self, key: str) -> bool:
        """Tell whether a flag is set."""
        return key in self._found and self._found[key][0] is True

    def list(self, key: str) -> list[str]:
        """Give the values of an option that may be given several times."""
        value = self._found[key][0] if key in self._found else []
        return value if isinstance(value, list) else [str(value)]

    def value(self, key: str) -> Any:
        """Give the value of an option, of a flag what it sets. Raises SpecError."""
        option = self._options[key]
        if not option.metavar:
            return option.sets
        return option.read(self.text(key), self.where(key)) if option.read else self.text(key)

    def fields(self, of: str) -> dict[str, Any]:
        """Give the fields that options set of a policy, or of what else `of` names in targets.

        Only those that are said. Raises SpecError.
        """
        found: dict[str, Any] = {}
        for _, fields in self._set(of):
            found |= fields
        return found

    def policy(self, of: str, kind: Any, *checked: Any) -> Any:
        """Make a policy of what options set of it, None if none does.

        checked: what the check of `kind` takes. Each refusal names its option. Raises SpecError.
        """
        found: dict[str, Any] = {}
        for key, fields in self._set(of):
            try:
                kind(**fields).check(*checked)
            except ValueError as e:
                said = str(e).removeprefix(f"{of}: ").removeprefix(next(iter(fields))).lstrip(": ")
                between = " " if said.startswith("must") else ": "
                raise SpecError(f"{self.where(key)}{between}{said}") from None
            found |= fields
        return kind(**found) if found else None

    def _set(self, of: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Give the options that are said, each with its fields.

        An empty text is a value on the command line, and elsewhere as if nothing were said.
        """
        for key in self._found:
            target, _, field = self._options[key].target.partition(".")
            empty = self._options[key].metavar and self.on_command_line(key)
            if target == of and (empty or self.said(key)):
                value = self.value(key)
                yield key, value if field == "*" else {field: value}

    def sets(self, of: str) -> bool:
        """Tell whether any option whose target is `of` is set, also with an empty value."""
        return any(self._options[key].target.startswith(f"{of}.") for key in self._found)

    def said(self, key: str) -> bool:
        """Tell whether it is said anywhere, and is not empty."""
        return key in self._found and self._found[key][0] not in ("", False, [])

    def on_command_line(self, key: str) -> bool:
        """Tell whether it is said on the command line."""
        return key in self._found and not self._found[key][1]

    def does_not_apply(self, key: str, why: str) -> None:
        """Refuse or leave out an option that makes no sense for this run, if it is set.

        On the command line it is refused. In a file or a variable it may be meant for other runs:
        it is left out, with a note. why: the message after the option's name. Raises SpecError.
        """
        if not self.said(key):
            return
        if self.on_command_line(key):
            raise SpecError(f"{self.where(key)} {why}")
        self.notes.append(f"{self.where(key)} is left out: it {why}")
        del self._found[key]

    def not_together(self, one: str, other: str, why: str = "") -> None:
        """Refuse or leave out one of two options that exclude each other, if both are set.

        The one whose source counts more stays. Two from the same kind of source are refused.
        why: "" or a reason. Raises SpecError.
        """
        if not (self.said(one) and self.said(other)):
            return
        because = f": {why}" if why else ""
        rank_of_one, rank_of_other = self._found[one][2], self._found[other][2]
        if rank_of_one == rank_of_other:
            both = f"{self.where(one)} and {self.where(other)}"
            raise SpecError(f"{both} cannot go together{because}")
        left, stays = (other, one) if rank_of_one < rank_of_other else (one, other)
        self.does_not_apply(left, f"does not go with {self.where(stays)}{because}")

    def keep_applicable(self, engine: str, chosen: str) -> None:
        """Refuse or leave out all options that do not apply to this kind of run.

        engine: its name, "" for a run on this machine. chosen: how it was chosen, for a refusal.
        """
        for key in [*self._found]:
            option = self._options[key]
            obstacle = option.obstacle(engine, chosen)
            if obstacle:
                self.does_not_apply(key, obstacle)
            elif option.needs and not self.value(option.needs):
                needed = self._options[option.needs]
                which = f", which is {needed.default}" if needed.default else ""
                self.does_not_apply(key, f"does nothing without {needed.names[-1]}{which}")

    def elsewhere(self) -> list[str]:
        """Say which options are set elsewhere than on the command line, and where."""
        return [
            f"{self._options[key].names[-1]} {value} ({source})".replace(" True ", " ")
            for key, (value, source, _) in self._found.items()
            if source and self.said(key) and not isinstance(value, list)
        ]

    def where(self, key: str) -> str:
        """Name an option as it was written, for a message."""
        source = self._found[key][1] if key in self._found else ""
        return source or self._options[key].written
