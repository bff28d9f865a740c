"""Applies changes that a person has written to objects of Kubernetes. Pure.

A patch is a JSON merge patch (RFC 7386): a mapping is merged key by key, null takes a key away, and
anything else takes the place of what was there. One thing is added, since manifests consist of
lists whose items have names: where the items of both lists have the same key of `KEYS`, they are
merged by it, and new ones are put at the end. `$patch: replace` as the first item of a list, and
`$patch: delete` in an item, are those of Kubernetes' own strategic merge patch.

What Kubernetes would refuse in any case is refused here, and the message says where: one of these
lists that is no list, an item of it without its name, and an object without its `spec`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from procession.values.base import cast

# The keys that identify items of lists, as in Kubernetes' own patches.
KEYS = {
    "containers": "name",
    "initContainers": "name",
    "env": "name",
    "volumes": "name",
    "volumeMounts": "mountPath",
    "ports": "containerPort",
    "imagePullSecrets": "name",
    "replicatedJobs": "name",
    "hostAliases": "ip",
    "topologySpreadConstraints": "topologyKey",
}
# What an object cannot be without, where it has it.
NEEDED = ("metadata", "spec", "template")
HOW = "$patch"


class PatchError(ValueError):
    """A patch that cannot be applied. The text says where and why."""


def patched(target: object, patch: object, where: str = "") -> Any:
    """Give `target` with a patch applied; neither is changed. Raises PatchError."""
    if isinstance(patch, Mapping):
        return _merged(target, cast("Mapping[str, Any]", patch), where)
    if isinstance(patch, list):
        return _list(target, cast("list[Any]", patch), where)
    return patch


def _merged(target: object, patch: Mapping[str, Any], where: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if isinstance(target, Mapping) and patch.get(HOW) != "replace":
        found |= cast("Mapping[str, Any]", target)
    for name, value in patch.items():
        if name == HOW:
            if value != "replace":
                raise PatchError(f"{where or 'the patch'}: {HOW} must be replace, not {value!r}")
            continue
        at = f"{where}.{name}".lstrip(".")
        if name in NEEDED and isinstance(found.get(name), Mapping) and not _is_mapping(value):
            raise PatchError(f"{at}: it must stay a mapping, and cannot be {_shown(value)}")
        if value is None:
            found.pop(name, None)
            continue
        if _is_named_list(at) or _has_names(found, name):
            _check_list(value, at)
        found[name] = patched(found.get(name), value, at)
    return found


def _list(target: object, patch: list[Any], where: str) -> list[Any]:
    items = cast("list[Any]", target) if isinstance(target, list) else []
    name = where.rpartition(".")[2]
    key = KEYS.get(name)
    named = _is_named_list(where) or bool(items and key and _keyed(items, key))
    if patch and patch[0] == {HOW: "replace"}:
        items, patch = [], patch[1:]
    if key is not None and named:
        for number, item in enumerate(patch):
            if not _keyed([item], key):
                raise PatchError(f"{where}, item {number + 1}: it must be a mapping with {key!r}")
    if key is None or not _keyed(items, key) or not _keyed(patch, key):
        return [patched(None, item, where) for item in patch]
    found = {item[key]: item for item in items}
    for item in patch:
        at = f"{where}[{item[key]}]"
        how = item.get(HOW)
        if how == "delete":
            if item[key] not in found:
                raise PatchError(f"{at}: there is none to delete, but {', '.join(map(str, found))}")
            del found[item[key]]
        else:
            found[item[key]] = patched(found.get(item[key]), item, at)
    return list(found.values())


def _is_named_list(where: str) -> bool:
    """Tell whether Kubernetes expects a list of `KEYS` here, and not a label of the same name."""
    above, _, name = where.rpartition(".")
    in_item = above.endswith("]")  # in a container
    in_spec = above.rpartition(".")[2] == "spec" and name != "ports"  # a Service's have no such key
    return name in KEYS and (in_item or in_spec)


def _has_names(target: Mapping[str, Any], name: str) -> bool:
    items, key = target.get(name), KEYS.get(name)
    if key is None or not isinstance(items, list):
        return False
    each = cast("list[Any]", items)
    return len(each) > 0 and _keyed(each, key)


def _check_list(value: object, at: str) -> None:
    if not isinstance(value, list):
        raise PatchError(f"{at}: it must be a list, not {_shown(value)}")


def _is_mapping(value: object) -> bool:
    return isinstance(value, Mapping)


def _shown(value: object) -> str:
    return "null" if value is None else repr(value) if isinstance(value, str) else "anything else"


def _keyed(items: Sequence[Any], key: str) -> bool:
    return all(isinstance(item, Mapping) and key in item for item in items)
