"""`procession completion SHELL`: a script that completes our words in bash, zsh or fish.

It is written from the tables of options, and holds all words that it offers: completing starts no
Python.
"""

from __future__ import annotations

import sys
from importlib import import_module

from procession.cli import adopt, doctor, explain
from procession.cli.commands import COMMANDS, STEERING
from procession.cli.request import make_parser
from procession.cli.say import say
from procession.cli.words import Option, Parser

SHELLS = ("bash", "zsh", "fish")
HELP = ("-h", "--help")
# How zsh completes the words behind a command's options.
REST = {
    "run": " \\\n                    '*::word:_normal'",
    "adopt": " \\\n                    '*::word:_normal'",
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
            *:-*) ;;
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
        run:*|adopt:*) COMPREPLY=($(compgen -c -- "$word") $(compgen -f -- "$word")) ;;
        logs:*|attach:*|stop:*|report:*|stacks:*)
            COMPREPLY=($(compgen -W "$(_procession_runs) last" -- "$word")) ;;
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


def main(words: list[str]) -> int:
    """Print the script; returns the exit code."""
    shells = ", ".join(SHELLS)
    parser = Parser(
        "procession completion",
        usage="procession completion SHELL",
        description=f"{COMMANDS['completion'].capitalize()}. SHELL is one of {shells}.\n"
        'For bash and zsh: eval "$(procession completion bash)"',
    )
    _, rest = parser.read(words)
    if len(rest) != 1 or rest[0] not in SHELLS:
        parser.error(f"say for which shell: {shells}")
    options = {name: [*each.options.values()] for name, each in parsers().items()}
    say({"bash": _bash, "zsh": _zsh, "fish": _fish}[rest[0]](COMMANDS, options), sys.stdout)
    return 0


def parsers() -> dict[str, Parser]:
    """Make the parsers of the commands that have options."""
    steer = {n: import_module(f"procession.cli.steer.{n}").PARSER for n in STEERING}
    others = {"doctor": doctor.PARSER, "explain": explain.PARSER}
    return {"run": make_parser(), "adopt": adopt.PARSER, **steer, **others}


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _bash(commands: dict[str, str], options: dict[str, list[Option]]) -> str:
    takes = [
        f"{command}:{name}"
        for command, each in options.items()
        for option in each
        if option.metavar and not option.bare
        for name in option.names
    ]
    values: list[str] = []
    for command, each in options.items():
        for option in each:
            if not option.metavar or option.bare:
                continue
            pattern = "|".join(f"{command}:{name}" for name in option.names)
            what = '-W "" --'
            if option.words:
                what = f"-W {_quoted(' '.join(option.words))} --"
            elif option.metavar in (FILES, DIRECTORIES):
                what = "-f --" if option.metavar == FILES else "-d --"
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
        shells=_quoted(" ".join(SHELLS)),
    )


def _zsh(commands: dict[str, str], options: dict[str, list[Option]]) -> str:
    def spec(option: Option) -> str:
        text = option.help.replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]")
        text = text.replace(":", "\\:")
        value = ""
        if option.words:
            value = f":{option.metavar}:({' '.join(option.words)})"
        elif option.metavar in (FILES, DIRECTORIES):
            value = f":{option.metavar}:_files" + (" -/" if option.metavar == DIRECTORIES else "")
        elif option.metavar and not option.bare:
            value = ":{}: ".format(option.metavar.replace(":", "\\:"))
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


def _fish(commands: dict[str, str], options: dict[str, list[Option]]) -> str:
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
            if option.metavar and not option.bare:
                words.append("-r" if option.metavar in (FILES, DIRECTORIES) else "-x")
            if option.words:
                words += ["-a", _fish_quoted(" ".join(option.words))]
            lines.append(" ".join([*words, "-d", _fish_quoted(option.help)]))
    shells = " ".join(SHELLS)
    seen = "'__fish_seen_subcommand_from completion'"
    lines.append(f"complete -c procession -n {seen} -f -a '{shells}'")
    return "\n".join(lines) + "\n"


def _fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
