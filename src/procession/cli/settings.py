"""The value of each option, and where it was set: collects them, and starts nothing.

What comes first counts: the command line, variables PROCESSION_*, torchrun's PET_*, the file of
--config, [tool.procession] in the nearest pyproject.toml that has one, the defaults. In TOML, keys
are the long names of options, with dashes or underscores:

    [tool.procession]
    nproc-per-node = 4
    log-dir = "runs"
    local-ranks-filter = [0, 1]
    env = { OMP_NUM_THREADS = 2 }
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress

from procession.cli.words import HELP, HELP_ALL, Option, near
from procession.values.base import cast, is_count
from procession.values.errors import SpecError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from procession.cli.words import Given, Said

    Options = Mapping[str, Option]

OURS, TORCHRUNS = "PROCESSION_", "PET_"
NOT_ELSEWHERE = (HELP.key, HELP_ALL.key, "config", "print_completion")  # what a file cannot say
TABLE = "tool.procession"
# What counts more comes first: the ranks of sources, see `Settings.add`.
RANKS = {OURS: 1, TORCHRUNS: 2}
CONFIG, PYPROJECT = 3, 4
LAST = 5  # the rank of a source that all others go before


class Settings:
    """Values as they were given: texts, True or False for flags, lists for --env and its like.

    given: on the command line.
    notes: lines to print about settings that are left out.
    """

    def __init__(self, options: Mapping[str, Option], given: Given) -> None:
        self.notes: list[str] = []
        self._options = options
        # The value, its source, and its rank.
        self._found: dict[str, tuple[Said, str, int]] = {n: (v, "", 0) for n, v in given.items()}

    def add(self, key: str, value: Said, source: str, rank: int = LAST) -> None:
        """Take a value from elsewhere for an option that has none yet.

        source: where it is said. rank: of its kind of source, 1 or more; lower ones count more.

        Of an option that may be given several times, all values are kept; what was added first
        stands last, and so counts most.
        """
        before = self._found.get(key)
        if before is None:
            self._found[key] = (value, source, rank)
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
        return {name: value for _, fields in self._set(of) for name, value in fields.items()}

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


def gather(options: Options, given: Given, *, torchrun: bool = False) -> Settings:
    """Put together what is said on the command line and elsewhere.

    torchrun: only what torchrun reads itself: its own variables, no file. Raises SpecError.
    """
    settings = Settings(options, given)
    for prefix in (TORCHRUNS,) if torchrun else (OURS, TORCHRUNS):
        _from_variables(prefix, settings, options)
    if not torchrun:
        if path := settings.text("config"):
            _from_config(path, settings, options)
        _from_pyproject(settings, options)
    for key, option in options.items():
        if option.variable and os.environ.get(option.variable):
            settings.add(key, os.environ[option.variable], option.variable)
    return settings


# -- variables


def _from_variables(prefix: str, settings: Settings, options: Options) -> None:
    for key, option in options.items():
        variable = prefix + key.upper()
        text = os.environ.get(variable)
        if text is None or (prefix == TORCHRUNS and not option.torchrun):
            continue
        if option.several:
            continue  # ranks inherit variables anyway
        if not option.metavar and not is_count(text.removeprefix("-")):
            raise SpecError(f"{variable} must be 0 or 1, not {text!r}")
        settings.add(key, text if option.metavar else int(text) != 0, variable, RANKS[prefix])


# -- files


def _from_config(path: str, settings: Settings, options: Options) -> None:
    """Take what the file of --config says; its table if it has one, else all of it."""
    try:
        data = _parsed(path)
    except OSError as e:
        raise SpecError(f"{settings.where('config')}: cannot read {path!r}: {e.strerror}") from None
    table = _table(data, path)
    _take_table(data if table is None else table, path, settings, options, CONFIG)


def _from_pyproject(settings: Settings, options: Options) -> None:
    """Take what the nearest pyproject.toml says that has our table and can be trusted."""
    try:
        directory = os.getcwd()
    except OSError:
        return  # it was removed, which is said elsewhere
    names = directory.split("/")
    for count in range(len(names), 0, -1):
        path = "/".join([*names[:count], "pyproject.toml"])
        with suppress(OSError):
            if _is_trusted(path) and (table := _table(_parsed(path, ours=True), path)) is not None:
                _take_table(table, path, settings, options, PYPROJECT)
                return


def _is_trusted(path: str) -> bool:
    """Tell whether it is a file; not in a directory to which everybody may write."""
    regular = stat.S_ISREG(os.stat(path).st_mode)
    return regular and not os.stat(os.path.dirname(path)).st_mode & stat.S_IWOTH


def _parsed(path: str, *, ours: bool = False) -> dict[str, Any]:
    """Read a TOML file. ours: only one that may have our table, to save time."""
    with open(path, "rb") as f:
        body = f.read()
    dense = body.translate(None, b" \t\"'")
    if ours and TABLE.encode() not in dense and b"[tool]" not in dense:
        return {}
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib  # pyright: ignore
    try:
        return cast("dict[str, Any]", tomllib.loads(body.decode()))  # pyright: ignore
    except ValueError as e:  # of TOML, or of UTF-8
        raise SpecError(f"{path} is not TOML: {e}") from None


def _table(data: Mapping[str, Any], path: str) -> dict[str, Any] | None:
    found: Any = data
    for key in TABLE.split("."):
        if not isinstance(found, dict) or key not in found:
            return None
        found = cast("dict[str, Any]", found)[key]
    if not isinstance(found, dict):
        raise SpecError(f"{path}: {TABLE} must be a table")
    return cast("dict[str, Any]", found)


def _take_table(
    table: Mapping[str, Any], path: str, settings: Settings, options: Options, rank: int
) -> None:
    base = os.path.basename(path)
    for name, value in table.items():
        key = name.replace("-", "_")
        if key not in options or key in NOT_ELSEWHERE:
            dashed = [k.replace("_", "-") for k in options if k not in NOT_ELSEWHERE]
            meant = near(key.replace("_", "-"), dashed)
            hint = f"; did you mean {meant}?" if meant else ""
            raise SpecError(f"{path}: there is no option {name!r}{hint}")
        said = f"{name} in {base}"
        settings.add(key, _value(value, options[key], said), said, rank)


def _value(value: Any, option: Option, said: str) -> Said:
    if option.several:
        if not isinstance(value, dict):
            raise SpecError(f"{said} must be a table of variables, not {value!r}")
        table = cast("dict[str, Any]", value)
        return [f"{name}={_text(each, f'{said}: {name}')}" for name, each in table.items()]
    if not option.metavar:
        if not isinstance(value, bool):
            raise SpecError(f"{said} must be true or false, not {value!r}")
        return value
    if option.bare and isinstance(value, bool):
        return option.bare if value else "off"
    if isinstance(value, list) and not option.bare:
        texts = [_text(each, said) for each in cast("list[Any]", value)]
        return ",".join(text.replace(",", ",,") for text in texts)
    return _text(value, said)


def _text(value: Any, said: str) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise SpecError(f"{said} must be a text or a number, not {value!r}")
    return str(value)
