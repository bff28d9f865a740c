"""Classes of named fields, as `dataclasses` makes them, without what that costs each launch.

`dataclasses` imports `inspect`, and writes and compiles six functions for each class: 25 ms for
the classes of this package, where a launch takes as long. Here all classes share their methods.
What `dataclasses` and `inspect` ask such a class for (`fields`, `replace`, `asdict`, `signature`)
is made when they ask. Type checkers take these classes for dataclasses.

And what a value is: `cast`, without `typing`, which takes longer to import than all the work of a
launch here; and texts that are numbers.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, cast

    from typing_extensions import Self, dataclass_transform
else:

    def dataclass_transform(**_):
        """Do nothing: it is for the type checker."""
        return lambda cls: cls

    def cast(_kind, value):
        """Give the value as it is; its type is for the type checker alone."""
        return value


__all__ = ["Record", "Value", "cast", "is_count"]


class _AsDataclass:
    """An attribute of the dataclass with the same fields, made when it is read."""

    def __set_name__(self, _: type, name: str) -> None:
        self._name = name

    def __get__(self, _: object, cls: type[_Fields]) -> Any:
        import dataclasses
        import inspect

        made = dataclasses.make_dataclass(
            cls.__name__,
            [(n, cls.__annotations__[n]) for n in cls.__match_args__],
            namespace={n: _shown(v) for n, v in vars(cls)["_defaults"].items()},
        )
        return inspect.signature(made) if self._name == "__signature__" else vars(made)[self._name]


def _shown(default: Any) -> Any:
    """Give a default as `dataclasses` wants it, which refuses those that can be changed."""
    from dataclasses import field

    return field(default_factory=lambda: default) if default.__hash__ is None else default


class _Fields:  # noqa: PLW1641 - its subclasses have a hash, or none
    """The methods. The fields of a class are the names that it annotates.

    All objects share a default, so it must not be changed.
    """

    __match_args__: tuple[str, ...] = ()
    _defaults: dict[str, Any] = {}  # noqa: RUF012 - each subclass has one of its own

    if not TYPE_CHECKING:
        __dataclass_fields__ = _AsDataclass()
        __signature__ = _AsDataclass()

    def __init_subclass__(cls) -> None:
        cls.__match_args__ = tuple(cls.__annotations__)
        cls._defaults = {n: cls.__dict__[n] for n in cls.__match_args__ if n in cls.__dict__}

    if not TYPE_CHECKING:

        def __init__(self, *args, **kwargs):
            # A launch makes thousands of these objects: there is little to do where nothing is
            # wrong, and least where all values are given by their places.
            names = self.__match_args__
            fields = self.__dict__
            fields.update(self._defaults)
            fields.update(zip(names, args))  # noqa: B905 - `strict` takes as long as all else
            fields.update(kwargs)
            twice = args and kwargs and not kwargs.keys().isdisjoint(names[: len(args)])
            if twice or len(fields) != len(names) or len(args) > len(names):
                given = f"{len(args)} values, and {', '.join(kwargs) or 'none'} by name"
                raise TypeError(f"{type(self).__name__} takes {', '.join(names)}; given: {given}")

    def _values(self) -> tuple[Any, ...]:
        return tuple(map(self.__dict__.__getitem__, self.__match_args__))

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self._values() == other._values()

    def __repr__(self) -> str:
        shown = [f"{n}={v!r}" for n, v in zip(self.__match_args__, self._values(), strict=True)]
        return f"{type(self).__qualname__}({', '.join(shown)})"

    def __replace__(self, **changes: Any) -> Self:
        """Give a copy with other values; `copy.replace` calls it."""
        given = dict(zip(self.__match_args__, self._values(), strict=True))
        return type(self)(**{**given, **changes})


@dataclass_transform(frozen_default=True)
class Value(_Fields):
    """A frozen value: equal and hashed by its fields, which its subclass annotates."""

    if not TYPE_CHECKING:

        def __setattr__(self, name, *_):
            from dataclasses import FrozenInstanceError

            raise FrozenInstanceError(f"cannot change field {name!r}")

        __delattr__ = __setattr__

        def __hash__(self):
            return hash(self._values())

        __eq__ = _Fields.__eq__  # a class that has one without the other cannot be hashed


@dataclass_transform()
class Record(_Fields):
    """A value that may change: equal by its fields, which its subclass annotates."""

    __hash__ = None  # pyright: ignore[reportAssignmentType]


def is_count(text: str, most: int = 9) -> bool:
    """Tell whether a text is a number from 0 on, in at most so many ASCII digits.

    `int` takes digits of all scripts, and raises ValueError for more than some thousand of them.
    """
    return len(text) <= most and text.isascii() and text.isdecimal()


def check_fields(policy: Value, what: str, *rules: tuple[str, Callable[[Any], bool], str]) -> None:
    """Raise ValueError for a field that does not fit.

    what: stands before the field's name in the error. rules: names of fields, whether a value fits,
    and what it must be, in words.
    """
    for names, fits, wanted in rules:
        for name in names.split():
            given = getattr(policy, name)
            if not fits(given):
                raise ValueError(f"{what}{name} must be {wanted}, not {given!r}")


def none_or(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Tell whether a value is None, or fits."""
    return lambda given: given is None or fits(given)


def members(kind: type, *collections: type) -> Callable[[Any], bool]:
    """Tell whether a value is one of these collections, but no text, of values of this kind."""
    return lambda given: (
        isinstance(given, collections)
        and not isinstance(given, (str, bytes))
        and all(type(each) is kind for each in given)
    )


def is_number(given: Any) -> bool:
    """Tell whether a value is a number of 0 or more."""
    return type(given) in (int, float) and 0 <= given < 1e9


def is_natural(given: Any) -> bool:
    """Tell whether a value is a count of 0 or more."""
    return type(given) is int and given >= 0
