"""Options, and command lines read by a table of them; wrong ones are refused in one line.

An option is one row of a table. Parsing, help, completion and documentation are made of rows. Our
options end where the program begins. argparse writes the help, and is imported only then.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence

from procession.cli.say import refuse, say
from procession.values.base import Value
from procession.values.errors import SpecError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal, NoReturn

    Said = str | bool | list[str]
    Table = Mapping[str, Sequence["Option"]]

    # From a text to its value. The second argument names the option, for SpecError.
    Reader = Callable[[str, str], object]


class Scope(Value):
    """The runs for which an option makes sense.

    alone: why it does not apply to a run on this machine alone, "" if it does. with_engine: why it
    does not apply to a run with an engine, "" if it does. engines: those it is for, empty for all.
    meeting: whether it is for launchers that find each other, too, which have no engine's name.
    """

    alone: str = ""
    with_engine: str = ""
    engines: tuple[str, ...] = ()
    meeting: bool = False

    def obstacle(self, engine: str, said: str) -> str:
        """Say why an option does not apply to a run, "" if it does.

        engine: the name of the run's engine, "" without one. said: how the engine was chosen.
        """
        if not engine:
            return self.alone
        if self.meeting and engine == MEETING:
            return ""
        if self.engines and engine not in self.engines:
            return f"is for --engine {' or '.join(self.engines)}"
        return f"{self.with_engine}; it does not go with {said}" if self.with_engine else ""


ANY_RUN = Scope()
ONE_MACHINE = Scope(with_engine="is for the ranks of one machine")
BY_MACHINE = Scope(with_engine="is for the ranks of one machine", meeting=True)
NUMBERED_MACHINES = Scope(
    with_engine="is not needed: the engine numbers the nodes, and node 0 says where ranks meet",
    meeting=True,
)


def for_engines(*names: str) -> Scope:
    """Give the scope of an option of these engines, of all engines if none is named."""
    return Scope(alone="needs --engine", engines=names, meeting=not names)


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
    empty: how an empty text is read. "": as not set, but on the command line an option with a
        default refuses it; "refused": refused on the command line; "a value": as a value.
    """

    names: tuple[str, ...]
    metavar: str
    help: str
    default: str = ""
    read: Reader | None = None
    target: str = ""
    sets: object = True
    scope: Scope = ANY_RUN
    needs: str = ""
    torchrun: bool = False
    several: bool = False
    words: tuple[str, ...] = ()
    variable: str = ""
    empty: Literal["", "refused", "a value"] = ""
    bare: str = ""

    @property
    def key(self) -> str:
        """Its name among the settings."""
        return self.names[-1][2:].replace("-", "_")

    @property
    def written(self) -> str:
        """Its names, as a message shows them."""
        return "/".join(self.names)


HELP = Option(("-h", "--help"), "", "show this help message and exit")
HELP_ALL = Option(("--help-all",), "", "show all options, by their subjects, and exit")


class Given:
    """The options that were given, as attributes; those that were not are None."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.__dict__.update(values)

    def __getattr__(self, name: str) -> Any:
        return None

    def __setattr__(self, name: str, value: object) -> None:
        self.__dict__[name] = value

    def __contains__(self, name: str) -> bool:
        return name in self.__dict__


class Parser:
    """Reads the options of one command.

    table: the rows by their headings in the help. usage, description, epilog: for the help. brief:
    what --help shows where it fits one screen; --help-all then shows all.
    hint: what else to say about an unknown option that resembles none of ours. shown: tells which
    options stand in the help, and may be abbreviated as far as it is clear which is meant, as
    torchrun's may; None: all stand there, and none may be abbreviated.

    Options have dashes; torchrun's spellings with underscores are taken all the same.
    """

    def __init__(
        self,
        prog: str,
        table: Table | Sequence[Option] = (),
        *,
        usage: str = "",
        description: str = "",
        epilog: str = "",
        brief: str = "",
        hint: str = "",
        shown: Callable[[Option], bool] | None = None,
    ) -> None:
        self.prog = prog
        self._table: Table = table if isinstance(table, Mapping) else {"": table}
        self._usage, self._description, self._epilog = usage, description, epilog
        self._brief, self._hint, self._shown = brief, hint, shown
        rows = [HELP, *([HELP_ALL] if brief else [])]
        rows += [option for rows in self._table.values() for option in rows]
        self.options = {option.key: option for option in rows}
        self._named = {name: option for option in rows for name in option.names}

    @property
    def shown(self) -> list[Option]:
        """The options that stand in the help."""
        return [*filter(self._shown, self.options.values())]

    def read(self, words: Sequence[str]) -> tuple[Given, list[str]]:
        """Read our options; gives them, and all words from the first one that is no option.

        A `--` before that word ends our options and is left out. What follows that word is given
        as it is. Raises SystemExit for a wrong command line, and for --help.
        """
        found: dict[str, Said] = {}
        rest = list(words)
        while rest and rest[0].startswith("-") and rest[0] != "-":
            word = rest.pop(0)
            if word == "--":
                break
            self._take(word, rest, found)
        return self._given(found), rest

    def read_mixed(self, words: Sequence[str]) -> tuple[Given, list[str]]:
        """Read our options wherever they stand; gives their values, and the other words.

        Raises as `read`, also where a text has no value.
        """
        found: dict[str, Said] = {}
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
                self._take(word, rest, found)
        return self._given({key: self._read(key, text) for key, text in found.items()}), others

    def _read(self, key: str, text: Said) -> object:
        option = self.options[key]
        try:
            return option.read(str(text), option.written) if option.read else text
        except SpecError as e:
            self.error(str(e))

    def _given(self, found: Mapping[str, object]) -> Given:
        if HELP.key in found or HELP_ALL.key in found:
            if HELP_ALL.key in found:
                say(self.help_text(), sys.stdout)
            else:
                self.print_help()
            raise SystemExit(0)
        return Given(found)

    def _take(self, word: str, rest: list[str], found: dict[str, Said]) -> None:
        """Take the options that a word holds; the value of the last one may follow in `rest`."""
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            option = self.find(name.replace("_", "-"), name)
            if option.metavar:
                given = value if equals else option.bare or self._value(option, rest)
                _keep(found, option, given)
            elif equals:
                self.error(f"{name} takes no value")
            else:
                found[option.key] = True
            return
        for at, letter in enumerate(word[1:], start=2):
            option = self.find(f"-{letter}", word)
            if option.metavar:
                value = word[at:].removeprefix("=") if word[at:] else self._value(option, rest)
                _keep(found, option, value)
                return
            found[option.key] = True

    def _value(self, option: Option, rest: list[str]) -> str:
        if not rest:
            self.error(f"{option.written} needs a value: {option.metavar}")
        return rest.pop(0)

    def find(self, name: str, written: str) -> Option:
        """Give the option of a name. written: the name as it was typed, for a refusal."""
        option = self._named.get(name)
        if option is None and self._shown and name.startswith("--"):
            meant = [each for each in self.shown if each.names[-1].startswith(name)]
            option = meant[0] if len(meant) == 1 else None
        if option is None:
            long = name if name.startswith("--") else f"-{written}"
            likely = near(long, self._named)
            hint = f"; did you mean {likely}?" if likely else self._hint
            self.error(f"there is no option {written!r}{hint}")
        return option

    def error(self, message: str) -> NoReturn:
        """Say in one line what is wrong, and exit with code 2."""
        refuse(self.prog, message)

    def print_help(self) -> None:
        """Print the help on the standard output."""
        say(self._brief or self.help_text(), sys.stdout)

    def help_text(self) -> str:
        """Write the help."""
        import argparse

        parser = argparse.ArgumentParser(
            self.prog,
            usage=self._usage or None,
            description=self._description,
            epilog=self._epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        for heading, rows in self._table.items():
            add = (parser.add_argument_group(heading) if heading else parser).add_argument
            for option in filter(self._shown, rows):
                text = option.help.replace("%", "%%")
                if option.bare:
                    add(*option.names, metavar=option.metavar, nargs="?", help=text)
                elif option.metavar:
                    add(*option.names, metavar=option.metavar, help=text)
                else:
                    add(*option.names, action="store_true", help=text)
        return parser.format_help()


def _keep(found: dict[str, Said], option: Option, value: str) -> None:
    before = found.get(option.key)
    if option.several:
        found[option.key] = [*before, value] if isinstance(before, list) else [value]
    else:
        found[option.key] = value


def near(word: str, known: Iterable[str], likeness: float = 0.75) -> str:
    """Give what `word` was probably meant to be, "" if nothing is like it (1: equal)."""
    import difflib

    names = sorted(known)
    longer = [name for name in names if len(word) > 3 and name.startswith(word)]
    return next(iter(longer or difflib.get_close_matches(word, names, 1, likeness)), "")


MEETING = "rendezvous"  # in the place of an engine's name, where launchers find each other
