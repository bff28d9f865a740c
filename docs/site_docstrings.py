"""Makes lists of the parameters in docstrings, for the site: mkdocstrings loads this extension.

Our docstrings name parameters as prose does, `grace: seconds until SIGKILL.`, a line for each or
several in one. Markdown would make one paragraph of them.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

NAMES = re.compile(r"(?:^|(?<=\. )|(?<=\n))((?:[a-z_]\w*)(?:, [a-z_]\w*)*): (?=\S)", re.MULTILINE)


def listed(text: str) -> str:
    """Give a docstring in which each parameter is an item of a list."""
    return "\n\n".join(_paragraph(part) for part in text.split("\n\n"))


def _paragraph(text: str) -> str:
    # Lines that are indented are code; a paragraph without a name in front is prose.
    if text.startswith((" ", "    ")) or not NAMES.match(text):
        return text
    parts = NAMES.split(text)[1:]
    items = zip(parts[::2], parts[1::2], strict=True)
    return "\n".join(f"- `{names}`: {' '.join(said.split())}" for names, said in items)


class Parameters(griffe.Extension):
    """Changes the docstrings of all that is collected."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change the docstring of one object."""
        if obj.docstring is not None:
            obj.docstring.value = listed(obj.docstring.value)
