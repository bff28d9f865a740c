"""The shared set-up of a group: what its ranks load once, as the user names it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from procession.values.base import Value
from procession.values.errors import SpecError
from procession.values.program import Command, Function, Program, default_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FORM = "module:function, or module:function(ARGUMENTS) with literals as arguments"


class SharedCall(Value):
    """A call of a function of a module, for the ranks of a script or module.

    text: as it was written. args, kwargs: literals.
    """

    text: str
    module: str
    function: str
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = {}


def read_shared(text: str, where: str = "shared") -> SharedCall:
    """Read `module:function` or `module:function(ARGUMENTS)`. Raises SpecError.

    where: what the text was given to, for the error.
    """
    import ast

    fault = SpecError(f"{where} must be {FORM}, not {text!r}")
    module, _, call = text.partition(":")
    if not all(name.isidentifier() for name in module.split(".")):
        raise fault
    try:
        found = ast.parse(call.strip(), mode="eval").body
        if isinstance(found, ast.Name):
            return SharedCall(text, module, found.id)
        if isinstance(found, ast.Call) and isinstance(found.func, ast.Name):
            args = tuple(ast.literal_eval(each) for each in found.args)
            kwargs = {each.arg or "": ast.literal_eval(each.value) for each in found.keywords}
            if "" not in kwargs:  # that is **
                return SharedCall(text, module, found.func.id, args, kwargs)
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        pass  # not Python, or no literals
    raise fault


def check_shared(
    shared: Any, programs: list[Program], start_method: str
) -> Callable[[], Any] | SharedCall:
    """Check the shared set-up of a group against what its ranks run. Raises SpecError."""
    first = programs[0]
    if any(isinstance(each, Command) for each in programs):
        raise SpecError(
            "shared needs a Python function or script: a command begins with memory of its own"
        )
    if any(each is not first for each in programs):
        raise SpecError("shared is for ranks that all run the same program")
    if start_method == "fork":
        raise SpecError(
            "shared is not for start_method='fork': there, ranks have what this process has loaded"
        )
    if isinstance(first, Function):
        if not callable(shared):
            raise SpecError(f"shared must be a function, not {shared!r}: ranks run a function")
        return shared
    call = read_shared(shared) if isinstance(shared, str) else shared
    if not isinstance(call, SharedCall):
        raise SpecError(f"shared must be a text for a script: {FORM}; not {shared!r}")
    if call.module == default_name(first).removesuffix(".py"):
        raise SpecError(
            f"shared: {call.text!r} is in the program itself, of which ranks run another copy: put "
            "the function into a module, and let the program import it"
        )
    return call


def name_of(shared: Callable[[], Any] | SharedCall) -> str:
    """Name a shared set-up in messages."""
    if isinstance(shared, SharedCall):
        return shared.text
    return f"{getattr(shared, '__name__', type(shared).__name__)}()"
