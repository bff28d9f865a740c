"""Objects of Kubernetes as text: YAML where PyYAML is there, JSON where it is not."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

# What no reader of YAML takes for a number or a truth value, whichever version it goes by: PyYAML
# would write 1e-4 without quotes, and kubectl would read a number there.
_PLAIN = re.compile(r"--?[A-Za-z][\w./:=-]*|[A-Za-z][\w./:=-]+", re.ASCII)


def as_yaml(objects: Sequence[Any]) -> str:
    """Write them as YAML, one document each. Raises ImportError where there is no PyYAML."""
    import yaml

    class Dumper(yaml.SafeDumper):
        """Writes texts in quotes unless they are plain words, and no aliases."""

        def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
            super().increase_indent(flow, False)

        def ignore_aliases(self, data: object) -> bool:
            return True

    def text(dumper: Dumper, value: str) -> yaml.ScalarNode:
        style = None if _PLAIN.fullmatch(value) else '"'
        return yaml.ScalarNode("tag:yaml.org,2002:str", value, style=style)

    Dumper.add_representer(str, text)
    return yaml.dump_all(
        objects, Dumper=Dumper, sort_keys=False, width=1_000_000, allow_unicode=True
    )


def as_json(objects: Sequence[Any]) -> str:
    """Write them as JSON: one object, or a List of several."""
    whole = objects[0]
    if len(objects) > 1:
        whole = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
    return json.dumps(whole, indent=2) + "\n"
