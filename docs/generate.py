"""Writes what the documentation has from the code and from results; --check only compares."""

from __future__ import annotations

import sys
from importlib import import_module

WRITERS = (
    "eventkinds",
    "write_reference",
    "write_share",
    "write_start_times",
)


def main(arguments: list[str]) -> int:
    """Run the command and give its exit code."""
    code = 0
    for name in WRITERS:
        for file, text in import_module(name).files().items():
            if file.is_file() and file.read_text(encoding="utf-8") == text:
                continue
            if "--check" in arguments:
                print(f"{file} is not up to date with {name}.py; run {__file__}", file=sys.stderr)
                code = 1
            else:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text, encoding="utf-8")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
