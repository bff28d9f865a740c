"""`procession completion SHELL`: a script that completes our words in bash, zsh or fish.

It is made from the parsers of the commands, and holds all that it offers: to complete a word starts
no Python.
"""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import NamedTuple

from procession.cli import STEERING, manifest
from procession.cli.options import make_parser
from procession.cli.parser import Parser
from procession.devices import AUTO, KINDS
from procession.spec import START_METHODS

SHELLS = ("bash", "zsh", "fish")
HELP = ("-h", "--help")
WORDS = {
    "nproc_per_node": ("auto", "cpu", "gpu", "xpu"),
    "devices": (AUTO, *KINDS),
    "redirects": ("0", "1", "2", "3"),
    "tee": ("0", "1", "2", "3"),
    "start_method": START_METHODS,
    "preload": ("auto", "none"),
    "stdin": ("0", "none"),
    "rdzv_backend": ("static", "c10d"),
    "kind": ("jobset", "job"),
    "output": ("yaml", "json"),
}
# How zsh completes the words behind a command's options.
REST = {
    "run": " \\\n                    '*::word:_normal'",
    "manifest": f" \\\n                    '1:where:({' '.join(manifest.WHERE)})' "
    "'*::word:_normal'",
}
FILES, DIRECTORIES = "FILE", "DIR"  # metavars

BASH = """\
# bash completion for procession. To use it: eval "$(procession completion bash)"
_procession() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} command=${{COMP_WORDS[1]}} at=2 option last
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        COMPREPLY=($(compgen -W {commands} -- "$word"))
        return
    fi
    while ((at < COMP_CWORD)); do
        option=${{COMP_WORDS[at]}}
        case $option in
            --) _procession_program $((at + 1)); return ;;
        esac
        case $command:$option in
            {takes_value})
                last=$option
                if [[ ${{COMP_WORDS[at + 1]}} == = ]]; then ((at += 1)); fi
                ((at += 1)) ;;
            *:-* | manifest:kubernetes) ;;
            *) _procession_program $at; return ;;
        esac
        ((at += 1))
    done
    option=
    if ((at > COMP_CWORD)); then
        option=$last
        if [[ $word == = ]]; then word=; fi
    fi
    case $command:$option in
{values}
    esac
    case $command:$word in
{options}
        run:*) COMPREPLY=($(compgen -c -- "$word") $(compgen -f -- "$word")) ;;
        logs:*|attach:*|stop:*|report:*|stacks:*)
            COMPREPLY=($(compgen -W "$(_procession_runs) last" -- "$word")) ;;
        manifest:*) COMPREPLY=($(compgen -W {places} -- "$word")) ;;
        completion:*) COMPREPLY=($(compgen -W {shells} -- "$word")) ;;
    esac
}}
_procession_program() {{
    COMPREPLY=($(compgen -f -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
_procession_runs() {{
    local place=${{XDG_RUNTIME_DIR:-/run/user/$UID}}/procession
    [[ -d $place ]] || place=${{TMPDIR:-/tmp}}/procession-$UID
    command ls "$place" 2> /dev/null
}}
complete -o filenames -F _procession procession
"""
ZSH = """\
#compdef procession
# zsh completion for procession. To use it: eval "$(procession completion zsh)"
_procession() {{
    local -a commands
    local state line
    commands=(
{commands}
    )
    _arguments -C '1:command:->command' '*::word:->words'
    case $state in
        command) _describe command commands ;;
        words)
            case $line[1] in
{cases}
            esac ;;
    esac
}}
compdef _procession procession
"""


class _Option(NamedTuple):
    """names: as typed. value: its metavar, "" for a flag. words: its known values."""

    names: tuple[str, ...]
    value: str
    words: tuple[str, ...]
    help: str


def script(shell: str, commands: dict[str, str], parsers: dict[str, Parser]) -> str:
    """Write the script. commands: what each does. parsers: of those that have options."""
    options = {name: _options(parser) for name, parser in parsers.items()}
    write = {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell]
    return write(commands, options)


def parsers() -> dict[str, Parser]:
    """Make the parsers of the commands that have options."""
    from procession.cli import doctor

    doctors = Parser("procession doctor")
    doctor.add_arguments(doctors)
    steering = {name: import_module(f"procession.cli.{name}").make_parser() for name in STEERING}
    others = {"manifest": manifest.make_parser(), "doctor": doctors}
    return {"run": make_parser(), **steering, **others}


def _options(parser: Parser) -> list[_Option]:
    return [_option(action) for action in parser.options.values()]


def _option(action: argparse.Action) -> _Option:
    value = "" if action.nargs == 0 else str(action.metavar)
    first = " ".join((action.help or "").replace("%%", "%").split())
    return _Option(tuple(action.option_strings), value, WORDS.get(action.dest, ()), first)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _bash(commands: dict[str, str], options: dict[str, list[_Option]]) -> str:
    takes = [
        f"{command}:{name}"
        for command, each in options.items()
        for option in each
        if option.value
        for name in option.names
    ]
    values: list[str] = []
    for command, each in options.items():
        for option in each:
            if not option.value:
                continue
            pattern = "|".join(f"{command}:{name}" for name in option.names)
            what = '-W "" --'
            if option.words:
                what = f"-W {_quoted(' '.join(option.words))} --"
            elif option.value in (FILES, DIRECTORIES):
                what = "-f --" if option.value == FILES else "-d --"
            values.append(f'        {pattern}) COMPREPLY=($(compgen {what} "$word")); return ;;')
    lines = [
        f"        {command}:-*) COMPREPLY=($(compgen -W "
        f'{_quoted(" ".join(n for o in each for n in o.names))} -- "$word")) ;;'
        for command, each in options.items()
    ]
    return BASH.format(
        commands=_quoted(" ".join((*commands, *HELP, "--version"))),
        takes_value="|".join(takes),
        values="\n".join(values),
        options="\n".join(lines),
        places=_quoted(" ".join(manifest.WHERE)),
        shells=_quoted(" ".join(SHELLS)),
    )


def _zsh(commands: dict[str, str], options: dict[str, list[_Option]]) -> str:
    def spec(option: _Option) -> str:
        text = option.help.replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]")
        text = text.replace(":", "\\:")
        value = ""
        if option.words:
            value = f":{option.value}:({' '.join(option.words)})"
        elif option.value in (FILES, DIRECTORIES):
            value = f":{option.value}:_files" + (" -/" if option.value == DIRECTORIES else "")
        elif option.value:
            value = ":{}: ".format(option.value.replace(":", "\\:"))
        own = [f"{name}[{text}]{value}" for name in option.names]
        return " ".join(_quoted(word) for word in own)

    cases: list[str] = []
    for command, each in options.items():
        specs = " \\\n                    ".join(spec(option) for option in each)
        rest = REST.get(command, "")
        cases.append(f"                {command}) _arguments -S \\\n                    {specs}"
                     f"{rest} ;;")  # fmt: skip
    cases.append(f"                completion) _values shell {' '.join(SHELLS)} ;;")
    described = [f"        {_quoted(f'{name}:{text}')}" for name, text in commands.items()]
    return ZSH.format(commands="\n".join(described), cases="\n".join(cases))


def _fish(commands: dict[str, str], options: dict[str, list[_Option]]) -> str:
    lines = [
        "# fish completion for procession. To use it: procession completion fish | source",
        "complete -c procession -n __fish_use_subcommand -f",
    ]
    for name, text in commands.items():
        lines.append(
            f"complete -c procession -n __fish_use_subcommand -a {name} -d {_fish_quoted(text)}"
        )
    for command, each in options.items():
        for option in each:
            words = ["complete", "-c", "procession", "-n"]
            words.append(f"'__fish_seen_subcommand_from {command}'")
            for name in option.names:
                words += ["-l", name[2:]] if name.startswith("--") else ["-s", name[1:]]
            if option.value:
                words.append("-r" if option.value in (FILES, DIRECTORIES) else "-x")
            if option.words:
                words += ["-a", _fish_quoted(" ".join(option.words))]
            lines.append(" ".join([*words, "-d", _fish_quoted(option.help)]))
    seen = "'__fish_seen_subcommand_from manifest'"
    lines.append(f"complete -c procession -n {seen} -f -a '{' '.join(manifest.WHERE)}'")
    shells = " ".join(SHELLS)
    seen = "'__fish_seen_subcommand_from completion'"
    lines.append(f"complete -c procession -n {seen} -f -a '{shells}'")
    return "\n".join(lines) + "\n"


def _fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


__all__ = ["SHELLS", "parsers", "script"]
