"""Docs/options.md, from the table of options in the code."""

from pathlib import Path

from procession.cli.options import TABLE
from procession.cli.words import ENGINES, NOT_WITH_ENGINES, ONE_MACHINE, Option

FILE = Path(__file__).with_name("options.md")
HEAD = """\
# Options of `procession run`

<!-- written by docs/write_options.py from src/procession/cli/options.py -->

An option may be said in five places. What comes first in this list counts:

1. the command line: `--log-dir runs`;
2. a variable: `PROCESSION_LOG_DIR=runs`; a flag is `1` or `0`;
3. torchrun's variable, for options that torchrun has: `PET_LOG_DIR=runs`;
4. the TOML file of `--config`: `log-dir = "runs"`; a flag is `true` or `false`;
5. the table `[tool.procession]` of the nearest `pyproject.toml`, here or in a directory above.

Names in TOML may have dashes or underscores. `--env` is a table there, and has no variable;
`--config` is for the command line and its variable. An empty variable, or an empty text in TOML,
puts an option back to its default.

An option that does not apply to a run is refused on the command line. Anywhere else it is left out,
with a note. Of two options that exclude each other, the one from the earlier place counts; two from
the same place are refused.

`procession-torchrun` takes the options that are marked *torchrun*, on the command line and from
`PET_` variables, and reads no file.
"""


def text() -> str:
    """Write the page."""
    parts = [HEAD]
    for heading, rows in TABLE.items():
        parts.append(f"\n## {(heading or 'ranks').capitalize()}\n\n")
        parts.append("| option | meaning | applies to |\n|---|---|---|\n")
        parts += [_row(option) for option in rows]
    return "".join(parts)


def _row(option: Option) -> str:
    names = ", ".join(f"`{name}`" for name in option.names)
    value = f" `{option.metavar}`" if option.metavar else ""
    cells = [names + value, option.help, _applies(option)]
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |\n"


def _applies(option: Option) -> str:
    found: list[str] = []
    if option.scope == ONE_MACHINE:
        found.append("ranks of one machine")
    elif option.scope in NOT_WITH_ENGINES:
        found.append("runs without `--engine`")
    elif option.scope:
        several = option.scope == ENGINES
        found.append("jobs over several machines" if several else f"`--engine {option.scope}`")
    if option.needs:
        found.append(f"runs with `--{option.needs.replace('_', '-')}`")
    if option.torchrun:
        found.append("*torchrun*")
    return ", ".join(found)


def files() -> dict[Path, str]:
    """Give the page."""
    return {FILE: text()}
