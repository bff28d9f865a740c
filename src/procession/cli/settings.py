"""What is asked of each option, wherever it is said.

What comes first counts: the command line, variables PROCESSION_*, torchrun's PET_*, the file of
--config, [tool.procession] in the nearest pyproject.toml that has one, the defaults. Where there is
no file, none is looked for but by its name.
"""

from __future__ import annotations

import argparse
import os
import stat
from collections.abc import Iterable, Mapping

from procession.cli.options import DEFAULTS, TORCHRUN
from procession.cli.parser import Parser
from procession.errors import SpecError

Value = str | bool | list[str]
OURS, TORCHRUNS = "PROCESSION_", "PET_"
NOT_ELSEWHERE = ("help", "config")  # what a file cannot say


class Settings:
    """The value of each option: text, of a flag True or False, of --env a list."""

    def __init__(self, options: Mapping[str, argparse.Action]) -> None:
        self._options = options
        self._found: dict[str, tuple[Value, str]] = {}

    def add(self, name: str, value: Value, source: str = "") -> None:
        """Take a value for an option that has none yet. source: where it is said, if elsewhere.

        Of those that may be given several times, all are kept, the first to count as the last.
        """
        before = self._found.get(name)
        if before is None:
            self._found[name] = (value, source)
        elif isinstance(value, list) and isinstance(before[0], list):
            self._found[name] = ([*value, *before[0]], before[1])

    def text(self, name: str) -> str:
        """Give an option's value, its default where it is not said; "" if it has none."""
        value = self._found[name][0] if name in self._found else DEFAULTS.get(name, "")
        return str(value)

    def flag(self, name: str) -> bool:
        """Tell whether a flag is set."""
        return name in self._found and self._found[name][0] is True

    def list(self, name: str) -> list[str]:
        """Give the values of an option that may be given several times."""
        value = self._found[name][0] if name in self._found else []
        return value if isinstance(value, list) else [str(value)]

    def given(self, names: Iterable[str]) -> bool:
        """Tell whether any of these is said, be it with an empty value."""
        return any(name in self._found for name in names)

    def said(self, name: str) -> bool:
        """Tell whether it is said anywhere, and is not empty."""
        return name in self._found and self._found[name][0] not in ("", False, [])

    def on_command_line(self, name: str) -> bool:
        """Tell whether it is said on the command line."""
        return name in self._found and not self._found[name][1]

    def where(self, name: str) -> str:
        """Name an option as it was written, for a refusal."""
        source = self._found[name][1] if name in self._found else ""
        return source or "/".join(self._options[name].option_strings)


def gather(parser: Parser, given: argparse.Namespace) -> Settings:
    """Put together what is said on the command line and elsewhere. Raises SpecError."""
    options = parser.options
    settings = Settings(options)
    for name, value in vars(given).items():
        settings.add(name, value)
    _from_environment(settings, options)
    path = settings.text("config")
    if path:
        from procession.cli.config import read_config

        read_config(path, settings, options, settings.where("config"))
    _from_pyproject(settings, options)
    return settings


def _from_environment(settings: Settings, options: Mapping[str, argparse.Action]) -> None:
    said = {name: text for name, text in os.environ.items() if name.startswith((OURS, TORCHRUNS))}
    for prefix in (OURS, TORCHRUNS) if said else ():
        for name, option in options.items():
            variable = prefix + name.upper()
            if variable not in said or (prefix == TORCHRUNS and name not in TORCHRUN):
                continue
            text = said[variable]
            if isinstance(option, argparse._AppendAction):  # pyright: ignore[reportPrivateUsage]
                continue  # a variable of the ranks needs none to be set
            if option.nargs != 0:
                settings.add(name, text, variable)
                continue
            if not text.removeprefix("-").isdecimal():
                raise SpecError(f"{variable} must be 0 or 1, not {text!r}")
            settings.add(name, int(text) != 0, variable)


def _from_pyproject(settings: Settings, options: Mapping[str, argparse.Action]) -> None:
    try:
        directory = os.getcwd()
    except OSError:
        return  # it is gone, which is said elsewhere
    while True:
        path = os.path.join(directory, "pyproject.toml")
        if _is_there(path):
            from procession.cli.config import read_pyproject

            if read_pyproject(path, settings, options):
                return
        above = os.path.dirname(directory)
        if above == directory:
            return
        directory = above


def _is_there(path: str) -> bool:
    """Tell whether there is such a file; not in a directory to which everybody may write."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return False
        return not os.stat(os.path.dirname(path)).st_mode & stat.S_IWOTH
    except OSError:
        return False


__all__ = ["Settings", "gather"]
