"""An option is one row of a table. Parsing, help, completion and documentation are made of rows."""

from __future__ import annotations

from procession.values.base import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Literal

    # From a text to its value. The second argument names the option, for SpecError.
    Reader = Callable[[str, str], object]


MEETING = "rendezvous"  # in the place of an engine's name, where launchers find each other


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
