"""Reads files of `procession manifest kubernetes --patch`, and applies them to the objects.

A file holds one or more documents. Each is a part of an object, with its `kind`: JobSet, Job or
Service for what is made, or Pod for the template of the pods, wherever that stands. See `patching`
for how it is merged.
"""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from procession.cli.kubernetes.objects import pod_template
from procession.cli.kubernetes.patching import PatchError, patched
from procession.values.base import cast

Object = dict[str, Any]

POD = "Pod"


def applied(made: Sequence[Object], file: str) -> list[Object]:
    """Give the objects with a file's changes. Raises OSError, ImportError, or ValueError."""
    text = sys.stdin.read() if file == "-" else _read(file)
    found = copy.deepcopy(list(made))
    number = 0
    try:
        for number, document in enumerate(_documents(text), 1):
            _apply(found, document, f"document {number}")
    except RecursionError:
        where = f"document {number}: " if number else ""
        raise PatchError(
            f"{where}it is nested too deeply, or an alias in it refers to what it is a part of"
        ) from None
    return found


def said(error: Exception) -> str:
    """Write an error in one line."""
    if isinstance(error, ImportError):
        return "PyYAML is missing: pip install 'procession[kubernetes]', or write the patch as JSON"
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return " ".join(str(error).split())


def _read(file: str) -> str:
    with open(file, encoding="utf-8") as f:
        return f.read()


def _documents(text: str) -> list[Any]:
    """Read JSON, or YAML of several documents. Raises ValueError, ImportError."""
    try:
        return [json.loads(text)]
    except ValueError:
        import yaml
    try:
        found = [document for document in yaml.safe_load_all(text) if document is not None]
    except yaml.YAMLError as e:
        raise PatchError(f"neither YAML nor JSON: {e}") from None
    if not found:
        raise PatchError("it is empty")
    return found


def _apply(made: list[Object], document: object, where: str) -> None:
    if not isinstance(document, Mapping) or "kind" not in document:
        raise PatchError(f"{where}: a mapping with a kind is expected: {POD}, {_kinds(made)}")
    patch = dict(cast("Mapping[str, Any]", document))
    kind = patch.pop("kind")
    if kind == POD:
        patch.pop("apiVersion", None)
        for each in made:
            template = pod_template(each)
            if template is not None:
                new = patched(template, patch)
                template.clear()
                template.update(new)
        return
    at = next((i for i, each in enumerate(made) if each["kind"] == kind), None)
    if at is None:
        raise PatchError(f"{where}: no {kind!r} is made, but {_kinds(made)}; {POD} is for pods")
    made[at] = patched(made[at], patch)


def _kinds(made: Sequence[Object]) -> str:
    return ", ".join(each["kind"] for each in made)
