"""Options from TOML: the table `[tool.procession]` of a pyproject.toml, or a file of their own.

    [tool.procession]
    nproc-per-node = 4
    log-dir = "runs"
    tee = 3
    local-ranks-filter = [0, 1]
    env = { OMP_NUM_THREADS = 2 }

Keys are the long names of options, with dashes or underscores.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping

from procession.cli.parser import near
from procession.cli.settings import NOT_ELSEWHERE, Settings, Value
from procession.errors import SpecError
from procession.typed import cast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

Options = Mapping[str, argparse.Action]
TABLE = "tool.procession"


def read_config(path: str, settings: Settings, options: Options, said: str) -> None:
    """Take what a file says that was named; its table if it has one, else all of it.

    Raises SpecError.
    """
    try:
        with open(path, "rb") as f:
            body = f.read()
    except OSError as e:
        raise SpecError(f"{said}: cannot read {path!r}: {e.strerror}") from None
    data = _parsed(body, path)
    table = _table(data, path)
    _take(data if table is None else table, path, settings, options)


def read_pyproject(path: str, settings: Settings, options: Options) -> bool:
    """Take what a pyproject.toml says; False if it has no such table. Raises SpecError."""
    try:
        with open(path, "rb") as f:
            body = f.read()
    except OSError:
        return False  # somebody else's
    if TABLE.encode() not in body.replace(b" ", b"").replace(b'"', b""):
        return False
    table = _table(_parsed(body, path), path)
    if table is None:
        return False
    _take(table, path, settings, options)
    return True


def _parsed(body: bytes, path: str) -> dict[str, Any]:
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


def _take(table: Mapping[str, Any], path: str, settings: Settings, options: Options) -> None:
    base = os.path.basename(path)
    for key, value in table.items():
        name = key.replace("-", "_")
        if name not in options or name in NOT_ELSEWHERE:
            dashed = [n.replace("_", "-") for n in options if n not in NOT_ELSEWHERE]
            meant = near(key.replace("_", "-"), dashed)
            hint = f"; did you mean {meant}?" if meant else ""
            raise SpecError(f"{path}: there is no option {key!r}{hint}")
        said = f"{key} in {base}"
        settings.add(name, _value(value, options[name], said), said)


def _value(value: Any, option: argparse.Action, said: str) -> Value:
    if isinstance(option, argparse._AppendAction):  # pyright: ignore[reportPrivateUsage]
        if not isinstance(value, dict):
            raise SpecError(f"{said} must be a table of variables, not {value!r}")
        table = cast("dict[str, Any]", value)
        return [f"{name}={_text(each, f'{said}: {name}')}" for name, each in table.items()]
    if option.nargs == 0:
        if not isinstance(value, bool):
            raise SpecError(f"{said} must be true or false, not {value!r}")
        return value
    if isinstance(value, list):
        texts = [_text(each, said) for each in cast("list[Any]", value)]
        return ",".join(text.replace(",", ",,") for text in texts)
    return _text(value, said)


def _text(value: Any, said: str) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise SpecError(f"{said} must be a text or a number, not {value!r}")
    return str(value)


__all__ = ["read_config", "read_pyproject"]
