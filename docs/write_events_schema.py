"""Writes docs/events.schema.json from the table of events in the code; --check only compares."""

import json
import sys
from pathlib import Path

from eventkinds import schema

FILE = Path(__file__).with_name("events.schema.json")


def main(arguments: list[str]) -> int:
    """Run the command and give its exit code."""
    text = json.dumps(schema(), indent=2) + "\n"
    if FILE.is_file() and FILE.read_text(encoding="utf-8") == text:
        return 0
    if "--check" in arguments:
        print(f"{FILE.name} is not up to date; run {Path(__file__).name}", file=sys.stderr)
        return 1
    FILE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
