"""The options of `procession run` for the page of commands, from the table in the code."""

import textwrap

from procession.cli.options import TABLE
from procession.cli.words import ENGINES, NOT_WITH_ENGINES, ONE_MACHINE, Option

HEAD = """\
# Options and commands

<!-- written by docs/write_reference.py and write_options.py -->

`procession run -h` prints the twenty options that most people need. `--help-all` prints all.

## Where to set options

The first one in this list counts:

1. the command line: `--log-dir runs`;
2. a variable: `PROCESSION_LOG_DIR=runs`; a flag is `1` or `0`;
3. torchrun's variable, for options of torchrun: `PET_LOG_DIR=runs`;
4. the TOML file of `--config`: `log-dir = "runs"`; a flag is `true` or `false`;
5. the table `[tool.procession]` of the nearest `pyproject.toml`, here or in a parent directory.

Besides:

- In TOML, use dashes or underscores. `--env` is a table there, and has no variable. `--config`
  has no entry in a file.
- An empty value sets an option back to its default.
- An option that does not apply to a run is an error on the command line. Elsewhere, it is ignored
  with a note.
- Of two options that exclude each other, the one from the earlier source counts. In the same
  source, they are an error.
- `procession-torchrun` accepts the options marked *torchrun*, on the command line and in `PET_`
  variables. It reads no file.

## Options of `procession run`
"""


def text() -> str:
    """Write the part."""
    parts = [HEAD]
    for heading, rows in TABLE.items():
        title = (heading or "ranks").capitalize()
        parts.append(f'\n??? abstract "{title}"\n\n')
        lines = ["| Option | Meaning | Applies to |", "|---|---|---|", *map(_row, rows)]
        parts.append(textwrap.indent("\n".join(lines) + "\n", "    "))
    return "".join(parts)


def _row(option: Option) -> str:
    names = ", ".join(f"`{name}`" for name in option.names)
    value = f" `{option.metavar}`" if option.metavar else ""
    if option.bare:  # a value stands in the same word
        names, value = f"{names[:-1]}[={option.metavar}]`", ""
    cells = [names + value, option.help, _applies(option)]
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


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
