"""argparse, but our options end where the program begins, and a fault is told in one line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence

from procession.cli.say import refuse, say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn


class Parser(argparse.ArgumentParser):
    """Reads the options of one command.

    hint: what else to say of an unknown option that resembles none of ours. short_forms: options
    that may be abbreviated as far as it is clear which is meant.

    Options are declared with dashes; torchrun's spellings with underscores are taken all the same.
    """

    def __init__(
        self, prog: str, hint: str = "", short_forms: Sequence[str] = (), **texts: Any
    ) -> None:
        super().__init__(
            prog=prog,
            # Each option that is declared makes one, and that would ask for the terminal's width.
            formatter_class=lambda prog: argparse.HelpFormatter(prog, width=100),
            allow_abbrev=False,
            **texts,
        )
        self._hint = hint
        self._short_forms = short_forms

    @property
    def options(self) -> dict[str, argparse.Action]:
        """The options by the names under which their values are kept."""
        return {action.dest: action for action in self._actions}

    def read(self, words: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
        """Read our options; gives them, and the words from the first on that is none of them.

        A `--` before that word ends our options and is left out. What follows that word is given
        as it is. Raises SystemExit for a wrong command line, and for --help.
        """
        own: list[str] = []
        rest = list(words)
        while rest and rest[0].startswith("-") and rest[0] != "-":
            word = rest.pop(0)
            if word == "--":
                break
            own += self._long(word, rest) if word.startswith("--") else self._short(word, rest)
        return self.parse_args(own), rest

    def read_mixed(self, words: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
        """Read our options wherever they stand; gives them, and the other words.

        Raises as `read`.
        """
        own: list[str] = []
        others: list[str] = []
        rest = list(words)
        while rest:
            word = rest.pop(0)
            if word == "--":
                others += rest
                break
            if not word.startswith("-") or word == "-":
                others.append(word)
            else:
                own += self._long(word, rest) if word.startswith("--") else self._short(word, rest)
        return self.parse_args(own), others

    def _long(self, word: str, rest: list[str]) -> list[str]:
        name, equals, value = word.partition("=")
        action = self._find(name.replace("_", "-"), name)
        if action.nargs != 0:
            return [f"{action.option_strings[-1]}={value if equals else self._value(action, rest)}"]
        if equals:
            self.error(f"{name} takes no value")
        return [action.option_strings[-1]]

    def _short(self, word: str, rest: list[str]) -> list[str]:
        own: list[str] = []
        for at, letter in enumerate(word[1:], start=2):
            action = self._find(f"-{letter}", word)
            name = action.option_strings[-1]
            if action.nargs != 0:
                value = word[at:].removeprefix("=") if word[at:] else self._value(action, rest)
                return [*own, f"{name}={value}"]
            own.append(name)
        return own

    def _value(self, action: argparse.Action, rest: list[str]) -> str:
        if not rest:
            self.error(f"{'/'.join(action.option_strings)} needs a value: {action.metavar}")
        return rest.pop(0)

    def _find(self, name: str, written: str) -> argparse.Action:
        action = self._option_string_actions.get(name)
        if action is None and len(name) > len("--"):
            meant = [known for known in self._option_string_actions if known.startswith(name)]
            if len(meant) == 1 and meant[0] in self._short_forms:
                return self._option_string_actions[meant[0]]
        if action is None:
            long = name if name.startswith("--") else f"-{written}"
            meant = near(long, self._option_string_actions)
            hint = f"; did you mean {meant}?" if meant else self._hint
            self.error(f"there is no option {written!r}{hint}")
        return action

    def error(self, message: str) -> NoReturn:
        """Tell in one line what is wrong, and leave with code 2."""
        refuse(self.prog, message.removeprefix("argument "))

    def print_help(self, file: Any = None) -> None:
        """Print the help on the standard output."""
        self.formatter_class = argparse.RawDescriptionHelpFormatter
        say(self.format_help(), file or sys.stdout)


def near(word: str, known: Iterable[str], likeness: float = 0.75) -> str:
    """Give what `word` was probably meant to be, "" if nothing is like it (1: equal)."""
    import difflib

    names = sorted(known)
    longer = [name for name in names if len(word) > 3 and name.startswith(word)]
    return next(iter(longer or difflib.get_close_matches(word, names, 1, likeness)), "")


__all__ = ["Parser", "near"]
