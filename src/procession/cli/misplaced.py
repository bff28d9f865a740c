"""An option of `procession run` that stands behind the program, and so went to it."""

from __future__ import annotations

import shlex
from collections.abc import Container, Mapping, Sequence
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from procession.cli.words import Option


def misplaced(rest: Sequence[str], ours: Mapping[str, Option], given: Container[str]) -> list[str]:
    """Say that an option was probably meant for us, unless the program's file speaks of it.

    rest: the program, and the words behind it. ours: all options by name. given: the keys of those
    that stand before the program, too.
    """
    program, word, *values = *rest, ""
    long = word.startswith("--")
    name, equals, _ = word.partition("=") if long else (word[:2], word[2:], "")
    option = ours.get(name.replace("_", "-"))
    if option is None or option.key in ("help", "module", "verbose") or option.key in given:
        return []
    follows = bool(option.metavar and not option.bare and not equals)
    own = [option.key] if long else [f"{name}'", f'{name}"']
    try:
        text = Path(program).read_text("utf-8", "replace")
    except OSError:
        return []
    if any(each in text for each in own) or (follows and not values[0]):
        return []
    said, program = shlex.join(rest[1 : 2 + follows]), shlex.quote(program)
    return [f"{said} went to {program}; for procession, type procession run {said} {program}"]
