"""What the wheel installs below share/: the manual page and completions.

They come from the table of options, and kept in packaging/share, so that a wheel can be
built without running anything of ours.
"""

from __future__ import annotations

from pathlib import Path

from procession.cli import DESCRIPTION as ABOUT
from procession.cli import completion
from procession.cli.commands import COMMANDS
from procession.cli.words import Parser
from procession.values.version import __version__

SHARE = Path(__file__).parents[1] / "packaging" / "share"
MANUAL = "man/man1/procession.1"
SEE = "https://procession.github.io/procession/"


def roff(text: str) -> str:
    """Give text as roff takes it for what it is."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\n".join(f"\\&{line}" if line[:1] in {".", "'"} else line for line in text.split("\n"))


def verbatim(text: str) -> list[str]:
    """Give lines that stay as they are."""
    return [".nf", roff(text.strip("\n")), ".fi"]


def options_of(parser: Parser) -> list[str]:
    """Write the options of a command."""
    lines: list[str] = []
    for option in parser.options.values():
        value = f" \\fI{roff(option.metavar)}\\fR" if option.metavar else ""
        value = f"[={value.lstrip()}]" if option.bare else value
        names = ", ".join(f"\\fB{roff(name)}\\fR" for name in option.names)
        lines += [".TP", names + value, roff(option.help)]
    return lines


def manual() -> str:
    """Write procession(1)."""
    known = completion.parsers()
    run = known["run"]
    lines = [
        f'.TH PROCESSION 1 "" "procession {__version__}" "User Commands"',
        ".SH NAME",
        "procession \\- launch n copies of a program as one group of ranks",
        ".SH SYNOPSIS",
        *verbatim(f"{run.usage}\nprocession COMMAND ..."),
        ".SH DESCRIPTION",
        roff(ABOUT.strip()),
        ".SH COMMANDS",
    ]
    for name, what in COMMANDS.items():
        lines += [".TP", f"\\fB{name}\\fR", roff(what)]
    lines += [".SH OPTIONS OF RUN", *options_of(run), ".SH MORE ABOUT RUN", *verbatim(run.epilog)]
    for name in COMMANDS:
        parser = known.get(name)
        if parser is None or name == "run":
            continue
        lines += [f".SH {name.upper()}"]
        lines += verbatim(parser.usage) if parser.usage else []
        lines += [*options_of(parser)]
        lines += [".PP", *verbatim(parser.epilog)] if parser.epilog else []
    return "\n".join([*lines, ".SH SEE ALSO", roff(SEE), ""])


def scripts() -> dict[str, str]:
    """Write the completions, each for its shell."""
    # zsh calls the file as the function of its name: the first time, it defines and calls it.
    zsh = completion.script("zsh")
    return {
        "bash-completion/completions/procession": completion.script("bash"),
        "zsh/site-functions/_procession": (
            "#compdef procession procession-torchrun\n"
            f"{zsh}_bash_complete -o filenames -F _procession\n"
        ),
    }


def files() -> dict[Path, str]:
    """Give what is below share/."""
    return {SHARE / name: text for name, text in {MANUAL: manual(), **scripts()}.items()}
