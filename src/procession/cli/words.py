"""Options, and command lines read by a table of them; wrong ones are refused in one line.

An option is one row of a table. Parsing, help, completion and documentation are made of rows. Our
options end where the program begins. argparse writes the help, and is imported only then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain

from procession.cli.say import refuse, say_out
from procession.values.base import Value
from procession.values.errors import SpecError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    Said = str | bool | list[str]
    Table = Mapping[str, Sequence["Option"]]

    Given = dict[str, Any]

    # From a text to its value. The second argument names the option, for SpecError.
    Reader = Callable[[str, str], object]


# The runs for which an option makes sense: one of these, or the name of an engine; "": all.
ONE_MACHINE = "one machine"
BY_MACHINE = "each machine"
NUMBERED_MACHINES = "numbered machines"
ENGINES = "engines"
MEETING = "rendezvous"  # in the place of an engine's name, where launchers find each other
NOT_WITH_ENGINES = {
    ONE_MACHINE: "is for the ranks of one machine",
    BY_MACHINE: "is for the ranks of one machine",
    NUMBERED_MACHINES: "is not needed: the engine numbers the nodes, and node 0 says where ranks "
    "meet",
}


class Option(Value):
    """One option.

    names: as they are written. The last one is long, and names it in variables and files.
    metavar: what stands for its value in the help, "" for a flag.
    bare: the text that counts where the option stands without a value, which then is behind "=" or
        not there; "" if it always has one.
    help: one sentence, without a full stop.
    default: the text that counts where the option is not set.
    read: makes a value of the text; None: the text is the value.
    target: the field that the value sets: of a policy ("hang.timeout"), of the group ("spec"), of
        the request ("run", "engine"), of one program ("program"), or one of an engine's own
        options ("options"). A field "*" stands for several. "": other code reads the option.
    sets: the value of a flag that is given.
    scope: the runs for which the option makes sense.
    needs: the key of another option, without which this one has no effect.
    torchrun: whether torchrun has the option, too.
    several: whether it may be given several times.
    words: values that a shell may offer.
    variable: one more variable that may set it; every other source goes before it.
    instead: what to do where the scope excludes it.
    """

    names: tuple[str, ...]
    metavar: str
    help: str
    default: str = ""
    read: Reader | None = None
    target: str = ""
    sets: object = True
    scope: str = ""
    needs: str = ""
    torchrun: bool = False
    several: bool = False
    words: tuple[str, ...] = ()
    variable: str = ""
    bare: str = ""
    instead: str = ""

    @property
    def key(self) -> str:
        """Its name among the settings."""
        return self.names[-1][2:].replace("-", "_")

    @property
    def written(self) -> str:
        """Its names, as a message shows them."""
        return "/".join(self.names)

    def obstacle(self, engine: str, said: str) -> str:
        """Say why it does not apply to a run, "" if it does.

        engine: the name of the run's engine, "" without one. said: how the engine was chosen.
        """
        if self.scope in NOT_WITH_ENGINES:
            if not engine or (engine == MEETING and self.scope != ONE_MACHINE):
                return ""
            instead = f": {self.instead}" if self.instead else ""
            return f"{NOT_WITH_ENGINES[self.scope]}; it does not go with {said}{instead}"
        if self.scope and not engine:
            return "needs --engine"
        return "" if self.scope in ("", ENGINES, engine) else f"is for --engine {self.scope}"


HELP = Option(("-h", "--help"), "", "print this help, and exit")
HELP_ALL = Option(("--help-all",), "", "print the help of all options, and exit")


class Parser(Value):
    """Reads the options of one command.

    table: the rows by their headings in the help. usage, description, epilog: for the help. brief:
    what --help shows where it fits one screen; --help-all then shows all.
    hint: what else to say about an unknown option that resembles none of ours. abbreviated: options
    may be, as torchrun's may, as far as it is clear which is meant.

    Options have dashes; torchrun's spellings with underscores are taken all the same.
    """

    prog: str
    table: Table
    usage: str
    description: str
    epilog: str = ""
    brief: str = ""
    hint: str = ""
    abbreviated: bool = False

    @cached_property
    def options(self) -> dict[str, Option]:
        """All options, by their keys."""
        rows = [HELP, *([HELP_ALL] if self.brief else []), *chain(*self.table.values())]
        return {option.key: option for option in rows}

    @cached_property
    def named(self) -> dict[str, Option]:
        """All options, by each of their names."""
        return {name: option for option in self.options.values() for name in option.names}

    def read(self, words: Sequence[str], *, mixed: bool = False) -> tuple[Given, list[str]]:
        """Read our options; gives their texts, and all words from the first one that is no option.

        A `--` before that word ends our options and is left out. What follows that word is given
        as it is. mixed: options may stand anywhere, and their values are given.

        Raises SystemExit for a wrong command line, and for --help.
        """
        found: Given = {}
        others: list[str] = []
        rest = list(words)
        while rest:
            word = rest.pop(0)
            if word.startswith("-") and word not in ("-", "--"):
                self._take_option(word, rest, found)
                continue
            others += [word] * (word != "--")
            if not mixed or word == "--":
                break
        if HELP_ALL.key in found:
            say_out(self.help_text())
            raise SystemExit(0)
        if HELP.key in found:
            self.print_help()
            raise SystemExit(0)
        if mixed:
            found = {key: self._read(key, text) for key, text in found.items()}
        return found, [*others, *rest]

    def _read(self, key: str, text: Said) -> object:
        option = self.options[key]
        try:
            return option.read(str(text), option.written) if option.read else text
        except SpecError as e:
            self.error(str(e))

    def _take_option(self, word: str, rest: list[str], found: Given) -> None:
        """Take the option that a word is; its value may follow in `rest`."""
        long = word.startswith("--")
        name, equals, value = word.partition("=") if long else (word[:2], word[2:], word[2:])
        option = self.find(name.replace("_", "-"), name if long else word)
        given: Any = True
        if option.metavar and equals:
            given = value if long else value.removeprefix("=")
        elif option.metavar:
            given = option.bare or (rest.pop(0) if rest else None)
        elif equals:
            self.error(f"{name} takes no value")
        if given is None:
            self.error(f"{option.written} needs a value: {option.metavar}")
        before = found.get(option.key, ())
        found[option.key] = [*before, given] if option.several else given

    def find(self, name: str, written: str) -> Option:
        """Give the option of a name. written: the name as it was typed, for a refusal."""
        option = self.named.get(name)
        if option is None and self.abbreviated and name.startswith("--"):
            meant = [each for each in self.options.values() if each.names[-1].startswith(name)]
            option = meant[0] if len(meant) == 1 else None
        if option is None:
            long = name if name.startswith("--") else f"-{written}"
            likely = near(long, self.named)
            hint = (
                f"; did you mean {likely}?" if likely else self.hint or f"; see {self.prog} --help"
            )
            self.error(f"there is no option {written!r}{hint}")
        return option

    def error(self, message: str) -> NoReturn:
        """Say in one line what is wrong, and exit with code 2."""
        refuse(self.prog, message)

    def print_help(self) -> None:
        """Print the help on the standard output."""
        say_out(self.brief or self.help_text())

    def help_text(self) -> str:
        """Write the help."""
        import argparse
        import re

        parser = argparse.ArgumentParser(
            self.prog,
            usage=self.usage,
            description=self.description,
            epilog=self.epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        for heading, rows in self.table.items():
            add = (parser.add_argument_group(heading) if heading else parser).add_argument
            for option in rows:
                how: Any = {"action": "store_true"}
                if option.metavar:
                    how = {"metavar": option.metavar, "nargs": "?" if option.bare else None}
                add(*option.names, help=option.help.replace("%", "%%"), **how)
        return re.sub(r"(--[a-z-]+) \[([A-Z]+)\]", r"\1[=\2]", parser.format_help())


def near(word: str, known: Iterable[str], likeness: float = 0.75) -> str:
    """Give what `word` was probably meant to be, "" if nothing is like it (1: equal)."""
    import difflib

    names = sorted(known)
    begins = {name[: len(word)]: name for name in reversed(names) if len(word) > 3}
    like = difflib.get_close_matches
    found = begins.get(word) or next(iter(like(word, names, 1, likeness)), "")
    return found or begins.get(next(iter(like(word, begins, 1, likeness)), ""), "")
