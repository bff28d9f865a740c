"""Which modules a program will import, as far as that is sure before it runs.

Theory of operation. The program is read, never run. Imports at the top level of the script, and of
the local modules that it imports, at their place, are taken in the order in which Python would come
to them. Between them may stand only what `harmless` knows; at the first other statement, and at the
first import of a module that is neither local nor on the list, reading stops. Up to there the
program could neither change what the taken imports see, nor see that they were made before.

Imports under a condition are not taken, since they may not happen; but they must be harmless.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence

from procession.preload import safe
from procession.preload.body import Body, Stopped
from procession.preload.find import Found, Kind, Search, with_packages
from procession.preload.plan import Plan, StoppedAt, nothing
from procession.preload.scope import UNKNOWN, Scope
from procession.preload.source import parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

MOST_FILES = 200  # of one program

_CONDITION = "it is imported under a condition"


def variables(modules: Iterable[str]) -> tuple[str, ...]:
    """Give the environment variables that these modules read when they are imported."""
    verdicts = {id(v): v for v in map(safe.verdict, modules)}  # one for many modules
    return tuple(dict.fromkeys(name for v in verdicts.values() for name in v.variables))


def hides(name: str) -> str:
    """Say that a local module hides another."""
    return f"it stands before the module {name} that others import"


def unless(name: str) -> str:
    """Say that a listed module imports one that is not safe."""
    return f"it imports {name}, which is not known to be safe"


class Reader:
    """Reads one program."""

    def __init__(self, sys_path: Sequence[str]) -> None:
        self._search = Search(sys_path)
        self._own = ""  # the top-level package that is the program itself, wherever it lies
        self._scopes: dict[str, Scope] = {}  # of local modules, by name
        self._sure: set[str] = set()  # of these, those that are imported under no condition
        self._taken: dict[str, None] = {}
        self._set: set[str] = set()  # variables that these set
        self._skipped: dict[str, str] = {}
        self.stopped_at: StoppedAt | None = None
        self._files = 0
        self._seen: set[str] = set()  # shared by all scopes

    def script(self, path: str) -> Plan:
        """Read a script and give the plan."""
        return self._plan(lambda: self._module(path, "__main__", "", sure=True), path)

    def module(self, name: str) -> Plan:
        """Read a module that is run, and give the plan."""
        return self._plan(lambda: self._main_module(name), name)

    def _plan(self, read: Callable[[], None], what: str) -> Plan:
        try:
            hidden = self._search.in_the_way(safe.packages() - {"procession"})
            if hidden is not None:
                return nothing(hidden[1], hides(hidden[0]))
            read()
        except Stopped:
            pass
        except (RecursionError, MemoryError):
            self.stopped_at = StoppedAt(what, 0, "", "it is nested too deep")
        skipped = {n: r for n, r in self._skipped.items() if n not in self._taken}
        modules = tuple(self._taken)
        return Plan(modules, tuple(skipped.items()), self.stopped_at, variables(modules))

    def _main_module(self, name: str) -> None:
        """Read a module after its packages."""
        parent = name.rpartition(".")[0]
        if not safe.verdict(name).safe or self._search.find(name).kind is Kind.LOCAL:
            self._own = name.partition(".")[0]
        if parent:
            self.imported(parent, f"-m {name}", 0, "", sure=True)
        found = self._search.find(name)
        if found.search:
            self.imported(name, f"-m {name}", 0, "", sure=True)
            parent, name = name, f"{name}.__main__"
            found = self._search.find(name)
        if not found.has_source:
            self.stop(f"-m {name}", 0, "", "its source is not found")
        self._module(found.file, "__main__", parent, sure=True)

    def stop(self, file: str, line: int, source: str, reason: str) -> NoReturn:
        """End reading here."""
        self.stopped_at = StoppedAt(file, line, source, reason)
        raise Stopped

    def _module(self, path: str, name: str, package: str, *, sure: bool) -> None:
        """Read a module's file to its end."""
        self._files += 1
        if self._files > MOST_FILES:
            self.stop(path, 0, "", "the program has too many files")
        text, tree = parse(path)
        if isinstance(tree, str):
            self.stop(path, 0, "", tree)
        scope = Scope(self._seen, self._stands_for)
        self._scopes[name] = scope
        Body(self, path, text, name, package, scope).run(tree.body, sure=sure)

    def _stands_for(self, module: str, name: str) -> str:
        scope = self._scopes.get(module)
        if scope is not None and name in scope.names:
            return scope.names[name]
        return f"@{module}.{name}" if f"{module}.{name}" in self._scopes else UNKNOWN

    def local(self, module: str) -> Scope | None:
        """Give the names of a local module that has been read, None for another module."""
        return self._scopes.get(module)

    def exists(self, module: str) -> bool:
        """Tell whether there is a module of this name."""
        return self._search.find(module).kind is not Kind.MISSING

    def is_package(self, module: str) -> bool:
        """Tell whether a module has submodules."""
        return bool(self._search.find(module).search)

    def left(self, names: Iterable[str], reason: str) -> None:
        """Note what is left to the ranks."""
        for name in names:
            self._skipped.setdefault(name, reason)

    def imported(self, module: str, file: str, line: int, source: str, *, sure: bool) -> None:
        """Follow the import of a module and of its packages, as Python does."""
        for name in with_packages(module):
            found = self._search.find(name)
            own = name.partition(".")[0] == self._own and found.kind is not Kind.MISSING
            ours = name.partition(".")[0] == "procession"  # a checkout of it is no local module
            if own or (found.kind is Kind.LOCAL and not ours):
                self._local(name, found, file, line, source, sure=sure)
                continue
            reason = self._why_not(name, found, sure=sure)
            if reason:
                self.left([name], reason)
                self.stop(file, line, source, f"{name}: {reason}")
            if sure:
                self._taken.setdefault(name)
                self._set.update(safe.verdict(name).sets)
            else:
                self.left([name], _CONDITION)

    def _why_not(self, name: str, found: Found, *, sure: bool) -> str:
        verdict = safe.verdict(name)
        if found.kind is Kind.MISSING:
            # Under a condition it is passed over: what is not there changes nothing.
            return "it is not found" if sure or not verdict.safe else ""
        if not verdict.safe:
            return verdict.reason
        if found.kind is not Kind.STANDARD and name.partition(".")[0] in sys.stdlib_module_names:
            return "it is not the standard library's"
        for other in verdict.unless:
            if self.exists(other):
                return unless(other)
        sets = set(verdict.sets) - self._set
        if sets and ("environ" in self._seen or not sure):
            return f"it sets {min(sets)}, which the program could see"
        return ""

    def _local(
        self, name: str, found: Found, file: str, line: int, source: str, *, sure: bool
    ) -> None:
        if name in self._scopes and (name in self._sure or not sure):
            return
        if sure:
            self._sure.add(name)
        if not found.file:
            # a namespace package
            self._scopes[name] = Scope(self._seen, self._stands_for)
        elif not found.has_source:
            self.stop(file, line, source, f"{name}: it is local, and has no source to be read")
        else:
            package = name if found.search else name.rpartition(".")[0]
            self._module(found.file, name, package, sure=sure)
