"""The modules and functions to which the pickles of a function and its arguments refer."""

from __future__ import annotations

from types import FunctionType, ModuleType

from procession.values.base import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Named(Value):
    """What pickles name: modules, which the rank will import, and functions."""

    modules: set[str]
    functions: list[FunctionType]

    def note(self, obj: Any) -> None:
        """Take note of an object that is pickled."""
        if isinstance(obj, ModuleType):
            self.modules.add(obj.__name__)
            return
        if isinstance(obj, FunctionType):
            self.functions.append(obj)
        module = getattr(
            obj if isinstance(obj, (type, FunctionType)) else type(obj), "__module__", 0
        )
        if isinstance(module, str):
            self.modules.add(module)
