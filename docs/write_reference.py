"""The pages of the reference that follow from the code.

reference/cli.md (with write_options.py) and errors.md.
"""

import re
import textwrap
from pathlib import Path

import write_options
from procession.cli.commands import COMMANDS, WHICH
from procession.cli.completion import parsers
from procession.cli.options import SHELLS

HERE = Path(__file__).parent
FAMILIES = {
    "P1": "How a rank ended",
    "P2": "Several nodes",
    "P3": "Runs and their files",
    "P4": "Notes: the run continues",
}
MESSAGES = HERE.parent / "src" / "procession" / "explain" / "codes.md"
MARK = "<!-- written by docs/write_reference.py -->\n"


def table(head: tuple[str, str], rows: dict[str, str]) -> str:
    """Write a table of two columns, the first in code."""
    cells = [f"| {', '.join(f'`{n}`' for n in name.split(', '))} | {said} |" for name, said in rows.items()]  # fmt: skip
    return "\n".join([f"| {head[0]} | {head[1]} |", "|---|---|", *cells]) + "\n"


def folded(title: str, *, more: str = "abstract") -> str:
    """Begin a part that a reader of the site opens by a click; the text in it is indented."""
    return f'\n??? {more} "{title}"\n'


def indented(text: str) -> str:
    """Write a text of such a part."""
    return "\n" + textwrap.indent(text.strip(), "    ") + "\n"


def commands() -> str:
    """Write the part about all commands, from their parsers."""
    known = parsers()
    parts = [f"\n## Other commands\n\n{WHICH}\n"]
    for name, what in COMMANDS.items():
        parser = known.get(name)
        if name == "run":
            continue
        parts.append(folded(f"procession {name}: {what}"))
        if name == "completion":
            parts.append(indented(f"```text\nprocession completion {'|'.join(SHELLS)}\n```"))
        if parser is None:
            continue
        usage, epilog = parser.usage, parser.epilog.replace(WHICH, "")
        parts.append(indented(f"```text\n{usage}\n```") if usage else "")
        rows = {
            ", ".join(f"{n} {o.metavar}".strip() for n in o.names): o.help.replace("|", "\\|")
            for o in parser.options.values()
            if "--help" not in o.names
        }
        parts.append(indented(table(("Option", "Meaning"), rows)) if rows else "")
        parts.append(indented(f"```text\n{epilog.strip()}\n```") if epilog else "")
    return "".join(parts)


def troubleshooting() -> str:
    """Write the page of errors, from the file that `procession explain` reads."""
    parts = [
        f"# Errors\n\n{MARK}\nReports and notes end with a code: `[P101]`. Look it up here, or in a terminal. "
        "`explain` also searches for words:\n\n```sh\nprocession explain P101\nprocession explain oom\n```\n\n"
        "Errors of the command line have no code: the message says what to type.\n"
    ]
    family = ""
    for code, title, why, cure in re.findall(
        r"## (P\d+): (.*)\n\n(.*)\n\n(.*)\n", MESSAGES.read_text("utf-8")
    ):
        if family != (family := FAMILIES[code[:2]]):
            parts.append(f"\n## {family}\n\n")
        summary = f"<summary>{code}: {title}</summary>"
        parts.append(
            f'<details id="{code.lower()}" markdown="1">{summary}\n\n{why}\n\n{cure}\n\n</details>\n\n'
        )
    return "".join(parts).rstrip() + "\n"


def files() -> dict[Path, str]:
    """Give the pages."""
    return {
        HERE / "reference/cli.md": write_options.text() + commands(),
        HERE / "reference/errors.md": troubleshooting(),
    }
