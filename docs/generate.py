"""Writes what the documentation has from the code and from results; --check only compares."""

from __future__ import annotations

import sys
from pathlib import Path

import draw_lifecycle
import draw_start_times
import draw_terminals
import eventkinds
import write_options
import write_reference
import write_share

WRITERS = (
    draw_lifecycle,
    draw_start_times,
    draw_terminals,
    eventkinds,
    write_options,
    write_reference,
    write_share,
)


def main(arguments: list[str]) -> int:
    """Run the command and give its exit code."""
    code = 0
    for writer in WRITERS:
        for file, text in writer.files().items():
            if file.is_file() and file.read_text(encoding="utf-8") == text:
                continue
            if "--check" in arguments:
                name = Path(writer.__file__ or "").name
                print(f"{file} is not up to date with {name}; run {__file__}", file=sys.stderr)
                code = 1
            else:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text, encoding="utf-8")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
