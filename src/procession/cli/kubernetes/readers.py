"""How the texts of options of `procession manifest kubernetes` become values.

A reader takes the text, and the name of the option as it was written, and raises SpecError.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from procession.cli.readers import count
from procession.values.errors import SpecError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from procession.cli.words import Reader

    Object = dict[str, Any]

NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
KEY = re.compile(r"([a-z0-9][-a-z0-9.]*/)?[A-Za-z0-9]([-\w.]*[A-Za-z0-9])?", re.ASCII)
VALUE = re.compile(r"([A-Za-z0-9]([-\w.]*[A-Za-z0-9])?)?", re.ASCII)
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
QUANTITY = re.compile(r"(\d+(?:\.\d+)?)(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?", re.ASCII)
SUFFIXES = {"m": 1e-3, "": 1.0, "k": 1000.0} | {
    letter + i: base ** (power + 1)
    for i, base in (("", 1000.0), ("i", 1024.0))
    for power, letter in enumerate("KMGTPE")
}
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
FROM = {"secret": "secretRef", "configmap": "configMapRef"}
VOLUMES = {
    "claim": ("persistentVolumeClaim", "claimName"),
    "secret": ("secret", "secretName"),
    "configmap": ("configMap", "name"),
}
SHM = "/dev/shm"  # noqa: S108 - the manifest's own


MOST = 2**31 - 1
FROM_0 = count("a number of 0 or more", 0, MOST)
FROM_1 = count("a number of 1 or more", 1, MOST)
PORT = count("a number of 1 to 65535", 1, 65535)


def quantity(text: str, where: str) -> str:
    """Read a quantity as Kubernetes writes it."""
    if not QUANTITY.fullmatch(text) or not amount(text):
        raise SpecError(f"{where} must be a quantity such as 16, 500m or 64Gi, not {text!r}")
    return text


def amount(text: str) -> float:
    """Give the number that a quantity stands for, 0 for what is none."""
    found = QUANTITY.fullmatch(text)
    return float(found[1]) * SUFFIXES[found[2] or ""] if found else 0.0


def request(text: str, where: str) -> tuple[str, str]:
    """Read REQUEST[:LIMIT]; the limit is "" where none is said."""
    least, colon, most = text.partition(":")
    quantity(least, where)
    if colon and amount(quantity(most, where)) < amount(least):
        raise SpecError(f"{where}: the limit {most} is below the request {least}")
    return least, most


def shared_memory(text: str, where: str) -> str | None:
    """Read the size of /dev/shm, None for the container runtime's own."""
    return None if text == "none" else quantity(text, where)


def name(text: str, _where: str) -> str:
    """Read the name of an object."""
    if not NAME.fullmatch(text):
        raise SpecError(f"names are small letters, digits, dashes and dots, not {text!r}")
    return text


def resource(text: str, where: str) -> str:
    """Read the name of a resource."""
    if not KEY.fullmatch(text):
        raise SpecError(f"{where} must be a name such as amd.com/gpu, not {text!r}")
    return text


def pair(names: re.Pattern[str], values: re.Pattern[str] | None = None) -> Reader:
    """Make a reader of NAME=VALUE."""
    return lambda text, where: _pair(text, where, names, values)


def _pair(
    text: str, where: str, names: re.Pattern[str], values: re.Pattern[str] | None
) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    fits = values is None or (values.fullmatch(value) and len(value) < 64)
    if not equals or not names.fullmatch(key) or not fits:
        raise SpecError(f"{where} must be NAME=VALUE, as Kubernetes allows them, not {text!r}")
    return key, value


def other_resource(text: str, where: str) -> tuple[str, str]:
    """Read NAME=QUANTITY."""
    key, value = _pair(text, where, KEY, None)
    if key in ("cpu", "memory"):
        raise SpecError(f"{where} {key}: write --{key}")
    return key, quantity(value, f"{where} {key}")


def env_from(text: str, where: str) -> Object:
    """Read where all variables come from."""
    kind, _, source = text.partition("/")
    if kind not in FROM or not NAME.fullmatch(source):
        _refuse_source(where, text, "secret/NAME or configmap/NAME")
    return {FROM[kind]: {"name": source}}


def env_secret(text: str, where: str) -> Object:
    """Read a variable whose value is one of a Secret."""
    variable, _, source = text.partition("=")
    secret, _, key = source.partition("/")
    if not VARIABLE.fullmatch(variable) or not NAME.fullmatch(secret) or not key:
        raise SpecError(f"{where} must be NAME=SECRET/KEY, not {text!r}")
    return {"name": variable, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}


def toleration(text: str, where: str) -> Object:
    """Read a taint that pods bear."""
    rest, colon, effect = text.partition(":")
    key, equals, value = rest.partition("=")
    if not KEY.fullmatch(key) or (colon and effect not in EFFECTS):
        raise SpecError(
            f"{where} must be KEY, KEY=VALUE or one of them with :{', :'.join(EFFECTS)}, "
            f"not {text!r}"
        )
    found: Object = {"key": key, "operator": "Equal" if equals else "Exists"}
    if equals:
        found["value"] = value
    return {**found, "effect": effect} if effect else found


def run_as(text: str, where: str) -> dict[str, object]:
    """Read UID[:GID]."""
    user, colon, group = text.partition(":")
    return {"user": FROM_0(user, where), "group": FROM_0(group, where) if colon else None}


def volumes(
    words: Sequence[str], where: str, *, restricted: bool
) -> tuple[list[Object], list[Object]]:
    """Read all volumes; gives them, and where they are mounted.

    restricted: no directory of the node may be one.
    """
    found: dict[str, Object] = {}
    mounts: list[Object] = []
    for word in words:
        source, colon, rest = word.partition(":")
        path, _, mode = rest.partition(":")
        if not colon or not path.startswith("/") or mode not in ("", "ro", "rw"):
            raise SpecError(f"{where} must be SOURCE:PATH or SOURCE:PATH:ro, not {word!r}")
        if path in [mount["mountPath"] for mount in mounts]:
            raise SpecError(f"{where}: two volumes at {path}")
        if path == SHM:
            raise SpecError(f"{where}: for {SHM}, say --shm-size")
        if source.startswith("/") and restricted:
            raise SpecError(f"{where} {source}: --restricted allows no directories of the node")
        key = word if source == "empty" else source  # each empty one is one of its own
        if key not in found:
            found[key] = _volume(where, word, source, len(found))
        mount: Object = {"name": found[key]["name"], "mountPath": path}
        mounts.append({**mount, "readOnly": True} if mode == "ro" else mount)
    return list(found.values()), mounts


def _volume(where: str, word: str, source: str, number: int) -> Object:
    """Give one volume. Its name is its own: those of Secrets and others may be too long."""
    kind, _, object_name = source.partition("/")
    own = f"{kind or 'node'}-{number}"
    if source == "empty":
        return {"name": own, "emptyDir": {}}
    if source.startswith("/"):
        return {"name": own, "hostPath": {"path": source}}
    if kind not in VOLUMES or not NAME.fullmatch(object_name):
        _refuse_source(where, word, "claim/NAME, secret/NAME, configmap/NAME, empty, /DIR")
    field, key = VOLUMES[kind]
    return {"name": own, field: {key: object_name}}


def _refuse_source(where: str, text: str, what: str) -> NoReturn:
    raise SpecError(f"{where}: the source must be {what}, not {text!r}")
