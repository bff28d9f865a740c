"""The structure of the package in figures: `python benchmarks/structure.py [DIRECTORY]`.

DIRECTORY: a checkout, or what `git archive REVISION` has unpacked; by default this one. Lines are
lines of code as pygount counts them, without comments, docstrings and blank lines. A room is a
package directly below `procession`, or a module beside them; its floor is one above the highest
room that it imports, where cycles count as one room. Imports inside functions and for types count.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from statistics import median

from pygount import SourceAnalysis


def measure(root: Path) -> dict[str, object]:
    """Give the figures of one source tree; root: its `procession` directory."""
    files = {p.relative_to(root).with_suffix("").as_posix(): p for p in root.rglob("*.py")}
    counts = [
        SourceAnalysis.from_file(str(p), "procession", encoding="utf-8") for p in files.values()
    ]
    lengths = [len(p.read_text(encoding="utf-8").splitlines()) for p in files.values()]
    imports = {name: imports_of(path, name, files) for name, path in files.items()}
    rooms: dict[str, set[str]] = {room_of(name): set() for name in files}
    for name, targets in imports.items():
        rooms[room_of(name)] |= {room_of(t) for t in targets} - {room_of(name)}
    longest = max(files, key=lambda name: lengths[list(files).index(name)])
    return {
        "lines of code": sum(each.code_count for each in counts),
        "files": len(files),
        "lines of a file, median": median(lengths),
        "lines of a file, longest": f"{max(lengths)} ({longest}.py)",
        "modules at the root": sum("/" not in name for name in files),
        "rooms": len(rooms),
        "floors": floors(rooms),
        "cycles of files": len([c for c in cycles(imports) if len(c) > 1]),
        "cycles of rooms": len([c for c in cycles(rooms) if len(c) > 1]),
    }


def imports_of(path: Path, name: str, files: dict[str, Path]) -> set[str]:
    """Give the files of the package that one of them imports."""

    def file_of(module: str) -> str | None:
        inside = module.removeprefix("procession").lstrip(".").replace(".", "/")
        return next((n for n in (inside, f"{inside}/__init__".lstrip("/")) if n in files), None)

    found: set[str | None] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            both = [(f"{node.module}.{alias.name}", node.module) for alias in node.names]
            modules = [full if file_of(full) else short for full, short in both]
        else:
            continue
        found |= {file_of(m) for m in modules if m.partition(".")[0] == "procession"}
    return {each for each in found if each is not None} - {name}


def room_of(name: str) -> str:
    """Give the room of a file."""
    return name.partition("/")[0]


def cycles(arrows: dict[str, set[str]]) -> list[set[str]]:
    """Give the strongly connected parts of a graph."""
    reach = {start: reachable(start, arrows) for start in arrows}
    parts: list[set[str]] = []
    for start in arrows:
        if not any(start in part for part in parts):
            parts.append({start} | {other for other in reach[start] if start in reach[other]})
    return parts


def reachable(start: str, arrows: dict[str, set[str]]) -> set[str]:
    """Give all that can be reached from a node."""
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        for target in arrows.get(waiting.pop(), ()):
            if target not in seen:
                seen.add(target)
                waiting.append(target)
    return seen


def floors(rooms: dict[str, set[str]]) -> int:
    """Count the floors of the house."""
    parts = cycles(rooms)
    home = {room: number for number, part in enumerate(parts) for room in part}
    below = [{home[t] for r in part for t in rooms[r]} - {n} for n, part in enumerate(parts)]
    found: dict[int, int] = {}

    def floor(number: int) -> int:
        if number not in found:
            found[number] = 1 + max((floor(each) for each in below[number]), default=0)
        return found[number]

    return max(floor(number) for number in range(len(parts)))


if __name__ == "__main__":
    top = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1]
    for what, figure in measure(top / "src" / "procession").items():
        print(f"{what:<26} {figure}")
