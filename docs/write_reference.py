"""The pages of the reference that follow from the code.

reference/commands.md and variables.md, and troubleshooting.md. Words for people
stand here, facts come from the code; where the two differ, this fails.
"""

import re
import signal
from pathlib import Path

from procession.agent.boot import LAUNCHER
from procession.cli import INTERRUPTED
from procession.cli.commands import COMMANDS, WHICH
from procession.cli.completion import parsers
from procession.cli.options import SHELLS
from procession.cli.say import LOST
from procession.driver.plugins import CHOICE
from procession.engines.addresses import ADDRESS
from procession.engines.contract import DRIVER, JOB
from procession.group.group import CONTROL
from procession.output import rundir
from procession.values.environment import ALONE, rank_environment
from procession.values.errors import HUNG_CODE
from procession.values.policy import NEVER_AGAIN
from procession.worker.board import VARIABLE as BOARD

HERE = Path(__file__).parent
MESSAGES = HERE.parent / "src" / "procession" / "explain" / "codes.md"
MARK = "<!-- written by docs/write_reference.py -->\n"

OF_RANKS = {
    "RANK": "the number of this rank in the whole job, from 0",
    "LOCAL_RANK": "its number on this machine, from 0",
    "WORLD_SIZE": "how many ranks the job has",
    "LOCAL_WORLD_SIZE": "how many of them are on this machine",
    "GROUP_RANK": "the number of this machine in the job, from 0",
    "GROUP_WORLD_SIZE": "how many machines the job has",
    "ROLE_NAME": "what `--role` says, else `default`",
    "ROLE_RANK": "as RANK",
    "ROLE_WORLD_SIZE": "as WORLD_SIZE",
    "MASTER_ADDR": "the address at which rank 0 listens",
    "MASTER_PORT": "its port: another one in each attempt, unless you choose it",
    "TORCHELASTIC_RUN_ID": "the id of the run, or what `--rdzv-id` says",
    "TORCHELASTIC_RESTART_COUNT": "which attempt this is, from 0",
    "TORCHELASTIC_MAX_RESTARTS": "how many restarts are allowed",
    "TORCHELASTIC_USE_AGENT_STORE": "`False`: rank 0 hosts the store of `init_process_group`",
    "TORCHELASTIC_ERROR_FILE": "where the description of a failure is written",
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": "`1`, unless you set it",
    "OMP_NUM_THREADS": "the machine's cores ÷ its ranks, where it has several and you do not set it",
    "PYTHONUNBUFFERED": "`1`, unless `-x` (`env=`) gives another value",
    "PROCESSION_RUN": "the id of the run",
    LAUNCHER: "which launcher the rank belongs to, for `procession clean`",
}
OF_SOME = {
    BOARD: "the memory into which `procession.beat()` writes",
    JOB: "the id of the run, on the machines of a job with an engine",
    DRIVER: "the name of the machine that drives such a job",
    "TRACEPARENT, TRACESTATE": "with `procession.telemetry`: the rank's own span",
    "CUDA_VISIBLE_DEVICES and its like": "with `--devices` or `--virtual-local-rank`: the rank's device",
}
READ = {
    "PROCESSION_<OPTION>": "any [option](../options.md) of `procession run`, such as PROCESSION_LOG_DIR",
    "PET_<OPTION>": "the same for options that torchrun has, as torchrun reads them",
    CONTROL: "`1`: also groups that programs start can be seen from other terminals; `0`: no run can",
    "PROCESSION_PRELOAD": "as `--preload`, also for the drop-ins: `none`, `auto`, or names of modules",
    CHOICE: "names of [handlers of events](../events.md) that installed packages bring",
    ADDRESS: "the address at which other machines reach this one",
    "PROCESSION_JOB_KEY": "the secret of those who join [a job](../several-machines.md)",
    "PROCESSION_WARM": "as `--warm`, also for `procession.run` and pytest",
    "PROCESSION_WARM_MOST": "how many processes may be kept [warm](../warm.md)",
    "XDG_RUNTIME_DIR": "where the sockets of runs are",
    "XDG_STATE_HOME": "where the directories of detached runs are (`~/.local/state`)",
    "XDG_CACHE_HOME": "where the packages are noted that are not imported early (`~/.cache`)",
    "TMPDIR": "where scratch directories are, and run directories without `--log-dir`",
    "NO_COLOR, FORCE_COLOR": "whether the live view and reports have colours",
    "MASTER_ADDR, MASTER_PORT": "where ranks meet, under mpirun, srun and Kubernetes",
    "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE": "the prefix of lines, as torchrun reads it",
    "TORCHELASTIC_SIGNALS_TO_HANDLE": "for `procession.elastic`, as the original reads it",
    "PYTHON_EXEC": "the interpreter of scripts, as torchrun reads it",
}
CODES = {
    "0": "every rank succeeded",
    "1 to 255": "the exit code of the rank that failed first",
    "128 + N": "the rank that failed first was killed by signal N; 137 is SIGKILL, 139 SIGSEGV",
    "1": "also: a rank could not be started",
    "2": "the command line is wrong; nothing was started",
    str(LOST): "every rank succeeded, but output or files could not be written (a full disk)",
    str(NEVER_AGAIN): "a rank's way to say that a restart is of no use (`--no-restart-codes`)",
    str(HUNG_CODE): "the group hung: `--hang-timeout` or `--silence-timeout` has passed",
    str(INTERRUPTED): "Ctrl-C",
    str(
        128 + signal.SIGPIPE
    ): "nobody reads the output any more, as in `procession run ... \\| head`",
    str(128 + signal.SIGTERM): "SIGTERM, `procession stop`, or the batch system",
}


def table(head: tuple[str, str], rows: dict[str, str]) -> str:
    """Write a table of two columns, the first in code."""
    cells = [f"| {', '.join(f'`{n}`' for n in name.split(', '))} | {said} |" for name, said in rows.items()]  # fmt: skip
    return "\n".join([f"| {head[0]} | {head[1]} |", "|---|---|", *cells]) + "\n"


def commands() -> str:
    """Write the page of all commands, from their parsers."""
    known = parsers()
    parts = [
        f"# Commands\n\n{MARK}\nEvery command has `--help`; that of `procession run` is one screen, and "
        "`--help-all` shows all its options. It has a page of "
        f"[options](../options.md) of its own.\n\n{WHICH}\n"
    ]
    for name, what in COMMANDS.items():
        parts.append(f"\n## procession {name}\n\n{what[0].upper()}{what[1:]}.\n")
        parser = known.get(name)
        if name == "completion":
            parts.append(f"\n```text\nprocession completion {'|'.join(SHELLS)}\n```\n")
        if parser is None or name == "run":
            continue
        usage, epilog = parser.usage, parser.epilog.replace(WHICH, "")
        parts.append(f"\n```text\n{usage}\n```\n" if usage else "")
        rows = {
            ", ".join(f"{n} {o.metavar}".strip() for n in o.names): o.help.replace("|", "\\|")
            for o in parser.options.values()
            if "--help" not in o.names
        }
        parts.append("\n" + table(("option", "meaning"), rows) if rows else "")
        parts.append(f"\n```text\n{epilog.strip()}\n```\n" if epilog else "")
    return "".join(parts)


def variables() -> str:
    """Write the page of environment variables."""
    known = {*rank_environment(ALONE, 0, 2, "", {}), "PROCESSION_RUN", LAUNCHER}
    differing = known ^ OF_RANKS.keys()
    if differing:
        raise SystemExit(f"write_reference: variables of ranks: {sorted(differing)} differ")
    return (
        f"# Variables and files\n\n{MARK}\n## What every rank finds\n\nThe names and meanings are torchrun's, "
        "so `torch.distributed.init_process_group` needs nothing else.\n\n"
        + table(("variable", "meaning"), OF_RANKS)
        + "\n## What some ranks find\n\n"
        + table(("variable", "meaning"), OF_SOME)
        + "\n## What procession reads\n\n"
        + table(("variable", "meaning"), READ)
        + "\nVariables of Slurm, mpirun and Kubernetes that are read are in "
        "[Under mpirun and srun](../starters.md). Other variables that begin with PROCESSION_ are "
        "procession's own, between its processes: do not set them.\n"
    )


def exit_codes() -> str:
    """Write the part about exit codes."""
    return (
        "\n## Exit codes\n\nOf `procession run`, and of `procession attach`:\n\n"
        + table(("code", "meaning"), CODES)
        + "\nOther commands exit with 0, with 1 if they could not do what they were asked, and with 2 "
        "for a wrong command line or if there is no such run.\n\nIn Python, "
        "`GroupFailed.exit_code` is what a command should exit with. The drop-ins keep the codes of "
        "what they replace.\n"
    )


def rundirs() -> str:
    """Write the part about files."""
    layout = (rundir.__doc__ or "").split("\n\n")[1]
    return (
        "\n## Files\n\nA run has a directory if you give `--log-dir DIR` (`Logs(dir)`), `-r` or "
        "`-t`, or start it with `--detach`.\n\n"
        f"```text\n{layout}\n```\n\n"
        "| file | what it holds |\n|---|---|\n"
        "| `run.json` | what was asked for: program, ranks, directory, policies; secrets in command lines are masked |\n"
        "| `events.jsonl` | one [event](../events.md) in each line |\n"
        "| `report.txt` | how the run ended, in words |\n"
        "| `result.json` | the same as data, what `--json` prints. It is written last and whole: where "
        "it is missing, the run goes on or its launcher was killed |\n"
        "| `console.log` | of a detached run: what the console would show |\n"
        "| `attempt_<k>/<rank>/stdout.log`, `stderr.log` | the output of a rank, with `-r` or `-t` |\n"
        "| `attempt_<k>/<rank>/error.json` | a failure, in the form of torch's `record` |\n"
        "| `attempt_<k>/stacks.txt` | the stacks of all ranks at a failure or a hang |\n"
        "| `attempt_<k>/filtered_stdout.log`, `filtered_stderr.log` | with "
        "`--duplicate-stdout-filters` and its like |\n\n"
        "`<rank>` is the number on its machine. Jobs on several machines put `node_<n>/` before "
        "`attempt_<k>`. Files are readable by their owner only.\n\n"
        "Elsewhere there are: the sockets of runs in `$XDG_RUNTIME_DIR/procession`; detached runs and "
        "the list of the last 200 runs in `~/.local/state/procession`; the packages that are "
        "not imported early in `~/.cache/procession`. All of them may be deleted when no run is going on.\n"
    )


def troubleshooting() -> str:
    """Write the page of messages, from the file that `procession explain` reads."""
    text = MESSAGES.read_text(encoding="utf-8")
    entries = re.sub(r"^## (P(\d+): .*)", r"## \1 { #p\2 }", text, flags=re.MULTILINE)
    return (
        f"# Messages\n\n{MARK}\nReports of failures and notes carry a code: `[P101]`. Look it up "
        "here, or in a terminal:\n\n```sh\nprocession explain P101\n```\n\n"
        "P1 is for how a rank ended, P2 for jobs on several machines, P3 for runs and their files, "
        "P4 for notes: the run goes on. Refusals of a command have no code: the message says what "
        "to type.\n\n"
        f"{entries}"
    )


def files() -> dict[Path, str]:
    """Give the pages."""
    return {
        HERE / "reference/commands.md": commands() + exit_codes(),
        HERE / "reference/variables.md": variables() + rundirs(),
        HERE / "troubleshooting.md": troubleshooting(),
    }
