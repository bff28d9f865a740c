"""`procession completion SHELL`: a script that completes our words in bash, zsh or tcsh.

It is written from the tables of options, and holds all words that it offers: completing starts no
Python.
"""

from __future__ import annotations

from importlib import import_module
from shlex import quote

from procession.cli import adopt, doctor, explain, warm
from procession.cli.commands import COMMANDS, STEERING, parser_of
from procession.cli.options import SHELLS, make_parser
from procession.cli.say import say_out
from procession.cli.words import Option, Parser

TORCHRUNS = "torchrun"  # what stands for a command where the words are those of procession-torchrun
FILES, DIRECTORIES = "FILE", "DIR"  # metavars

BASH = """\
# Completion for procession. To use it: eval "$(procession completion bash)", or zsh
_procession() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} command=${{COMP_WORDS[1]}} at=2 option last
    COMPREPLY=()
    if [[ ${{COMP_WORDS[0]##*/}} == procession-torchrun ]]; then
        command=torchrun at=1
    elif ((COMP_CWORD == 1)); then
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
        torchrun:*) _procession_program ;;
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
complete -o filenames -F _procession procession procession-torchrun
"""
# zsh has what the script for bash needs.
ZSH = "autoload -U +X bashcompinit && bashcompinit\n"


def main(words: list[str]) -> int:
    """Print the script; returns the exit code."""
    shells = ", ".join(SHELLS)
    how = f'SHELL is one of {shells}.\nFor bash and zsh: eval "$(procession completion bash)"'
    parser = parser_of("completion", "SHELL", how)
    _, rest = parser.read(words)
    if len(rest) != 1 or rest[0] not in SHELLS:
        parser.error(f"say for which shell: {shells}")
    say_out(script(rest[0]))
    return 0


def script(shell: str) -> str:
    """Write the script for a shell."""
    options = {name: [*each.options.values()] for name, each in parsers().items()}
    if shell == "tcsh":
        return _tcsh(COMMANDS, options)
    return ZSH * (shell == "zsh") + _bash(COMMANDS, options)


def parsers() -> dict[str, Parser]:
    """Make the parsers of the commands that have options."""
    steer = {
        name: import_module(f"procession.cli.steer.{module}").PARSERS[name]
        for name, module in STEERING.items()
    }
    others = {"doctor": doctor.PARSER, "explain": explain.PARSER, "warm": warm.PARSER}
    runs = {"run": make_parser(), TORCHRUNS: make_parser(torchrun=True)}
    return {**runs, "adopt": adopt.PARSER, **steer, **others}


def _bash(commands: dict[str, str], options: dict[str, list[Option]]) -> str:
    takes: list[str] = []
    values: list[str] = []
    lines: list[str] = []
    for command, each in options.items():
        names = quote(" ".join(name for option in each for name in option.names))
        lines.append(f'        {command}:-*) COMPREPLY=($(compgen -W {names} -- "$word")) ;;')
        for option in each:
            if not option.metavar or option.bare:
                continue
            pattern = "|".join(f"{command}:{name}" for name in option.names)
            takes.append(pattern)
            what = '-W "" --'
            if option.words:
                what = f"-W {quote(' '.join(option.words))} --"
            elif option.metavar in (FILES, DIRECTORIES):
                what = "-f --" if option.metavar == FILES else "-d --"
            values.append(f'        {pattern}) COMPREPLY=($(compgen {what} "$word")); return ;;')
    return BASH.format(
        commands=quote(" ".join((*commands, "-h", "--help", "--version"))),
        takes_value="|".join(takes),
        values="\n".join(values),
        options="\n".join(lines),
        shells=quote(" ".join(SHELLS)),
    )


def _tcsh(commands: dict[str, str], options: dict[str, list[Option]]) -> str:
    def rules(command: str, *first: str) -> str:
        values = [
            f"n/{option.names[-1]}/({' '.join(option.words)})/"
            for option in options[command]
            if option.words
        ]
        names = " ".join(option.names[-1][2:] for option in options[command])
        return " ".join(f"'{rule}'" for rule in (*first, *values, f"c/--/({names})/", "p/*/f/"))

    first = f"p/1/({' '.join(commands)})/"
    return (
        "# tcsh completion for procession. To use it, source this file.\n"
        f"complete procession {rules('run', first)}\n"
        f"complete procession-torchrun {rules(TORCHRUNS)}\n"
    )
