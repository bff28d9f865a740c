"""The statements of one file of a program: imports are followed, the rest must be harmless."""

from __future__ import annotations

import ast
import os

from procession.preload import harmless, known
from procession.preload.scope import FALSE, UNKNOWN, Scope, full_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from procession.preload.reader import Reader


LONGEST = 200  # characters of a line that is shown


class Stopped(Exception):
    """Reading ends here."""


class Body:
    """Reads the statements of one file."""

    def __init__(
        self, reader: Reader, file: str, text: list[bytes], name: str, package: str, scope: Scope
    ) -> None:
        self._reader = reader
        self._file = file
        self._text = text
        self._name = name  # `__main__` for what is run
        self._package = package  # where relative imports begin
        self._scope = scope

    def run(self, body: list[ast.stmt], *, sure: bool) -> None:
        """Read statements in order; ends at the first that is not harmless."""
        for i, node in enumerate(body):
            try:
                self._statement(node, sure=sure)
            except Stopped:
                at = self._reader.stopped_at
                assert at is not None
                where = f"{os.path.basename(at.file)}:{at.line}"
                for later in body[i:]:
                    self._reader.left(_imports(later), f"it comes after {where}")
                raise

    def _statement(self, node: ast.stmt, *, sure: bool) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                self._import(node, alias, sure=sure)
        elif isinstance(node, ast.ImportFrom):
            self._import_from(node, sure=sure)
        elif isinstance(node, ast.If):
            self._if(node)
        elif isinstance(node, ast.Try):
            self._try(node)
        else:
            self._need(harmless.statement(node, self._scope), node)

    def _need(self, reason: str, node: ast.stmt) -> None:
        """End reading at this statement if there is a reason."""
        if reason:
            self._reader.stop(self._file, node.lineno, self._line(node), reason)

    def _follow(self, module: str, node: ast.stmt, *, sure: bool) -> None:
        self._reader.imported(module, self._file, node.lineno, self._line(node), sure=sure)

    def _line(self, node: ast.stmt) -> str:
        line = self._text[node.lineno - 1] if node.lineno <= len(self._text) else b""
        return line.decode("utf-8", "replace").strip()[:LONGEST]

    def _bind(self, name: str, meaning: str, node: ast.stmt) -> None:
        """Note what a name stands for that is not assigned but imported, or caught."""
        self._scope.names[name] = meaning
        self._need(harmless.bound(name) or harmless.seen(meaning, "", self._scope), node)

    def _import(self, node: ast.Import, alias: ast.alias, *, sure: bool) -> None:
        self._follow(alias.name, node, sure=sure)
        meant = alias.name if alias.asname else alias.name.partition(".")[0]
        local = self._reader.local(meant) is not None
        self._bind(alias.asname or meant, f"@{meant}" if local else meant, node)

    def _import_from(self, node: ast.ImportFrom, *, sure: bool) -> None:
        base = node.module or ""
        if base == "__future__" and not node.level:
            self._scope.late_annotations |= any(a.name == "annotations" for a in node.names)
            return
        if node.level:
            parts = self._package.split(".") if self._package else []
            if node.level > len(parts):
                self._need("it is imported relative to no package", node)
            base = ".".join((*parts[: len(parts) - node.level + 1], *filter(None, [base])))
        self._follow(base, node, sure=sure)
        for alias in node.names:
            if alias.name == "*":
                self._star(base, node)
            else:
                meaning = self._one_from(base, alias.name, node, sure=sure)
                self._bind(alias.asname or alias.name, meaning, node)

    def _one_from(self, base: str, name: str, node: ast.stmt, *, sure: bool) -> str:
        """Follow `from base import name`; gives what the name stands for."""
        whole = f"{base}.{name}"
        scope = self._reader.local(base)
        if scope is None:
            if self._reader.is_package(base) and self._reader.exists(whole):
                self._follow(whole, node, sure=sure)
            return whole
        if name in scope.names:
            return scope.names[name]
        if not self._reader.exists(whole):
            return UNKNOWN
        if scope.open:
            self._need(f"{name} may be a submodule, or come from a star import of {base}", node)
        self._follow(whole, node, sure=sure)
        return f"@{whole}" if self._reader.local(whole) is not None else whole

    def _star(self, base: str, node: ast.stmt) -> None:
        if self._reader.is_package(base):
            self._need(f"a star import may import any submodule of {base}", node)
        if base in known.TELLING_MODULES:
            self._need(f"{base} has what may tell what has been imported", node)
        scope, own = self._reader.local(base), self._scope
        if scope is None or scope.open:
            own.open = True
            own.names.clear()  # each of them may have been replaced
            return
        chosen = "__all__" in scope.names  # and what is chosen is not looked at
        for name, meaning in scope.names.items():
            if chosen or not name.startswith("_"):
                own.names[name] = UNKNOWN if chosen else meaning

    def _if(self, node: ast.If) -> None:
        never = self._never(node.test)
        if not never:
            self._need(harmless.expression(node.test, self._scope), node)
            self._branch(node.body)
        self._branch(node.orelse)

    def _never(self, test: ast.expr) -> bool:
        """Tell whether a condition is known to be false."""
        if full_name(test, self._scope) in (*known.FALSE, FALSE):
            return True
        return (
            self._name != "__main__"
            and isinstance(test, ast.Compare)
            and isinstance(test.left, ast.Name)
            and test.left.id == "__name__"
            and len(test.ops) == 1
            and isinstance(test.ops[0], ast.Eq)
            and isinstance(test.comparators[0], ast.Constant)
            and test.comparators[0].value == "__main__"
        )

    def _try(self, node: ast.Try) -> None:
        for part in ast.walk(ast.Module(node.body, [])):
            if isinstance(part, ast.Attribute):
                # Whether a package has a submodule as an attribute tells what was imported.
                self._need("whether it fails may tell what has been imported", node)
        self._branch(node.body)
        for clause in node.handlers:
            if clause.type is not None:
                self._need(harmless.expression(clause.type, self._scope), node)
            if clause.name:
                self._bind(clause.name, UNKNOWN, node)
            self._branch(clause.body)
        self._branch(node.orelse)
        self._branch(node.finalbody)

    def _branch(self, body: list[ast.stmt]) -> None:
        """Read statements that may not be run: nothing is sure of what they bind."""
        before = dict(self._scope.names)
        self.run(body, sure=False)
        after = self._scope.names
        for name in before.keys() | after.keys():
            if before.get(name) != after.get(name):
                after[name] = UNKNOWN


def _imports(node: ast.stmt) -> list[str]:
    """Give what a top-level import statement imports."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and not node.level and node.module:
        return [node.module]
    return []
