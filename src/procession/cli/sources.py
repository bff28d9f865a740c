"""Collects the settings from the command line, variables and TOML files. Starts nothing.

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
from collections.abc import Mapping
from contextlib import suppress

from procession.cli.settings import Settings
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


def gather(options: Options, given: Given, *, torchrun: bool = False) -> Settings:
    """Put together what is said on the command line and elsewhere.

    torchrun: only what torchrun reads itself: its own variables, no file. Raises SpecError.
    """
    settings = Settings(options)
    for key, value in given.items():
        settings.add(key, value)
    for prefix in (TORCHRUNS,) if torchrun else (OURS, TORCHRUNS):
        _from_variables(prefix, settings, options)
    if not torchrun:
        path = settings.text("config")
        if path:
            _from_config(path, settings, options)
        _from_pyproject(settings, options)
    for key, option in options.items():
        if option.variable and os.environ.get(option.variable) and not settings.said(key):
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
    _take(data if table is None else table, path, settings, options, CONFIG)


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
                _take(table, path, settings, options, PYPROJECT)
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


def _take(
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
    if isinstance(value, list):
        texts = [_text(each, said) for each in cast("list[Any]", value)]
        return ",".join(text.replace(",", ",,") for text in texts)
    return _text(value, said)


def _text(value: Any, said: str) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise SpecError(f"{said} must be a text or a number, not {value!r}")
    return str(value)
