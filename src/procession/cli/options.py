"""The options of `procession run`: their names, defaults and help."""

from __future__ import annotations

import argparse

from procession.cli.parser import Parser
from procession.policy import DEFAULT_STOP

USAGE = "procession run [-n N] [options] [-m | --no-python] PROGRAM [ARGS ...] [: -n N ...]"
TORCHRUN_PROG = "procession-torchrun"
TORCHRUN_USAGE = "procession-torchrun [options] SCRIPT [ARGS ...]"

DESCRIPTION = """\
Run PROGRAM as a group of N ranks. The first failure ends the group at once, and
a report says which rank failed first, and why. Every rank finds its place in
RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, as under torchrun, and
torchrun's options are all here."""

EPILOG = """\
PROGRAM is a Python script, or, if it is none, a program: a path, or a name on the PATH.
Options of procession stand before it; all that follows belongs to it. In its arguments,
${local_rank} stands for the number of the rank on this machine.

Several programs make one group, as with mpirun, where a lone colon and -n or -x stand between
them: procession run -n 1 ps.py : -n 3 worker.py. Each has its own -n, -x, -m and --no-python.

STREAMS is 0 (none), 1 (stdout), 2 (stderr) or 3 (both), or such a value by rank: 0:3,2:1.
Without --log-dir, -r and -t make a directory in TMPDIR, which stays; the command says where.

Options may also come from elsewhere. What comes first in this list counts: the command line;
variables such as PROCESSION_LOG_DIR; torchrun's, such as PET_LOG_DIR; the file of --config; the
table [tool.procession] in pyproject.toml, here or in a directory above.

With --detach, the run goes on without a terminal: what the console would show is in console.log
in its directory (without --log-dir, below ~/.local/state/procession), beside report.txt and
result.json, which say how it ended. Its exit code is 0 if the group has started.

Under mpirun, mpiexec and srun, each of several commands reads from their variables which machine
or which rank it is; --nnodes 1 makes a group of its own.

Runs are seen and steered from other terminals: procession ps, logs, attach, stop, report.

exit codes: 0 if every rank succeeded, else that of the rank that failed first (128 + the number
of the signal that killed it); 130 after Ctrl-C, 143 after SIGTERM or procession stop; 141 if the
group was stopped because nobody reads its output any more (as in: procession run ... | head),
unless files keep it; 2 for a wrong command line; 124 if the group hung.

examples:
  procession run -n 4 train.py --epochs 3
  procession run -n 4 --log-dir runs -t 3 train.py    files by rank, and the console
  procession run -n 8 --log-dir runs -r 3 -t 0:3 -m mypackage.train
  procession run --engine slurm -n 8 train.py         in an allocation, on all its machines
  procession run --nnodes 2 --node-rank 1 --master-addr node0 --master-port 29500 -n 8 train.py
"""

DEFAULTS = {
    "nproc_per_node": "1",
    "nnodes": "1",
    "rdzv_backend": "static",
    "redirects": "0",
    "tee": "0",
    "prefix": "auto",
    "stdin": "0",
    "start_method": "forkserver",
    "preload": "auto",
    "max_restarts": "0",
    "start_timeout": "300",
    "signals_to_handle": "SIGTERM,SIGINT,SIGHUP,SIGQUIT",
}

# torchrun's own, by the name under which PET_ variables set them; the others are ours.
TORCHRUN = frozenset(
    [
        "nnodes",
        "nproc_per_node",
        "rdzv_backend",
        "rdzv_endpoint",
        "rdzv_id",
        "rdzv_conf",
        "standalone",
        "max_restarts",
        "monitor_interval",
        "start_method",
        "event_log_handler",
        "role",
        "module",
        "no_python",
        "run_path",
        "log_dir",
        "redirects",
        "tee",
        "local_ranks_filter",
        "duplicate_stdout_filters",
        "duplicate_stderr_filters",
        "node_rank",
        "master_addr",
        "master_port",
        "local_addr",
        "logs_specs",
        "numa_binding",
        "signals_to_handle",
        "shutdown_timeout",
        "virtual_local_rank",
    ]
)
# What argparse, and so torchrun, takes for an abbreviation: names without a dash inside.
SHORT_FORMS = ("--nnodes", "--standalone", "--role", "--module", "--redirects", "--tee")


def make_parser(*, torchrun: bool = False) -> Parser:
    """Make the parser. What it reads holds only what was given; see `Settings` for the rest.

    torchrun: for the command whose help shows torchrun's options only.
    """
    prog, usage = (TORCHRUN_PROG, TORCHRUN_USAGE) if torchrun else ("procession run", USAGE)
    parser = Parser(
        prog,
        hint=f"; see {prog} --help",
        short_forms=SHORT_FORMS,
        usage=usage,
        description=DESCRIPTION,
        epilog=EPILOG,
        argument_default=argparse.SUPPRESS,
    )
    _declare_ranks(parser)
    _declare_output(parser)
    _declare_life(parser)
    _declare_nodes(parser)
    _declare_engines(parser)
    if torchrun:
        for name, option in parser.options.items():
            if name not in TORCHRUN and name != "help":
                option.help = argparse.SUPPRESS
    return parser


def _declare_ranks(parser: Parser) -> None:
    add = parser.add_argument
    add("-n", "--nproc-per-node", dest="nproc_per_node", metavar="N",
        help="how many ranks: a number, cpu (as many as cores), gpu, xpu, or auto: as many as "
        "accelerators, or cores where there are none (default: 1)")  # fmt: skip
    add("-x", "--env", metavar="NAME=VALUE", action="append",
        help="a variable for the ranks of this PROGRAM; may be given several times")  # fmt: skip
    add("--devices", metavar="KIND",
        help="give each rank one device of its own: cuda, rocm, intel, ascend, neuron, tpu, jax, "
        "or auto for what there is")  # fmt: skip
    add("--numa-binding", metavar="MODE",
        help="run each rank on the CPUs of its GPU's NUMA node (node), of its socket (socket), on "
        "a share of the node's cores (exclusive), or of one cache (core-complex)")  # fmt: skip
    add("--cpus-per-rank", metavar="COUNT",
        help="give each rank so many CPUs that no other rank has")  # fmt: skip
    add("--nice", metavar="NUMBER", help="what is added to the niceness of ranks (default: 0)")
    add("--memory-limit", metavar="SIZE",
        help="the most memory of each rank, for example 4G or 512M")  # fmt: skip
    add("--virtual-local-rank", action="store_true",
        help="LOCAL_RANK is 0 in each rank, and CUDA_VISIBLE_DEVICES names one GPU")  # fmt: skip
    add("--role", metavar="NAME", help="what ranks find in ROLE_NAME (default: default)")
    add("-m", "--module", action="store_true", help="PROGRAM is a Python module")
    add("--no-python", action="store_true",
        help="PROGRAM is not Python, whatever it looks like")  # fmt: skip
    add("--run-path", action="store_true",
        help="PROGRAM is a Python script, whatever it looks like")  # fmt: skip
    add("--config", metavar="FILE", help="read options from this TOML file, too")


def _declare_output(parser: Parser) -> None:
    add = parser.add_argument_group("output").add_argument
    add("--log-dir", metavar="DIR",
        help="make a directory for this run in DIR, with the files of each rank")  # fmt: skip
    add("-r", "--redirects", metavar="STREAMS",
        help="streams that go to files, not to the console (default: 0)")  # fmt: skip
    add("-t", "--tee", metavar="STREAMS",
        help="streams that go to files and to the console (default: 0)")  # fmt: skip
    add("--local-ranks-filter", metavar="RANKS",
        help="show only these ranks on the console, for example 0,2,5-7")  # fmt: skip
    add("--duplicate-stdout-filters", metavar="TEXTS",
        help="of what is teed, copy the lines that hold one of these texts (commas between them, "
        ",, for a comma) to filtered_stdout.log")  # fmt: skip
    add("--duplicate-stderr-filters", metavar="TEXTS",
        help="the same for stderr, to filtered_stderr.log")  # fmt: skip
    add("--prefix", metavar="TEMPLATE",
        help="what stands before each line: {rank}, {local_rank}, {width}, {name}, "
        "{node}, {host} are filled in; "
        "'' for nothing: lines of different ranks may then mix (default: '[{rank}] ', or nothing "
        "with one rank)")  # fmt: skip
    add("--logs-specs", metavar="NAME",
        help="lay logs out by this entry point of the group torchrun.logs_specs")  # fmt: skip
    add("--live", action="store_true",
        help="show how the ranks are doing below their output, which then comes through this "
        "command; without a terminal, a line on stderr every minute")  # fmt: skip
    add("--status", metavar="SECONDS",
        help="say every SECONDS on stderr, in a line, how the ranks are doing")  # fmt: skip
    add("--json", action="store_true",
        help="at the end, print the result as JSON on stdout; all else goes to stderr")  # fmt: skip
    add("--otel", action="store_true",
        help="trace the run with OpenTelemetry; OTEL_TRACES_EXPORTER says where to")  # fmt: skip
    add("--detach", action="store_true",
        help="give the terminal back when the group has started; see attach")  # fmt: skip
    add("--stdin", metavar="RANK",
        help="the rank that reads this command's standard input, or none; the other ranks read "
        "end-of-file (default: 0)")  # fmt: skip


def _declare_life(parser: Parser) -> None:
    add = parser.add_argument_group("life").add_argument
    add("--max-restarts", metavar="COUNT",
        help="how many times a failed group starts again (default: 0)")  # fmt: skip
    add("--restart-backoff", metavar="SECONDS[:MOST]",
        help="wait so long before a restart, and twice as long before each further one, up to MOST "
        "(default: 0:300)")  # fmt: skip
    add("--restart-window", metavar="SECONDS",
        help="only restarts of the last so many seconds count for --max-restarts")  # fmt: skip
    add("--min-uptime", metavar="SECONDS",
        help="an attempt that fails earlier, in the same place as the one before it, is the last "
        "one (default: 0)")  # fmt: skip
    add("--restart-scope", metavar="SCOPE",
        help="what starts again: group (all ranks, the default), or rank (the one that "
        "failed)")  # fmt: skip
    add("--no-restart-codes", metavar="CODES",
        help="exit codes by which a rank says that it is of no use to start again "
        "(default: 78)")  # fmt: skip
    add("--shutdown-timeout", metavar="SECONDS",
        help=f"from the stop signal to SIGKILL (default: {DEFAULT_STOP.grace:g})")  # fmt: skip
    add("--signals-to-handle", metavar="SIGNALS",
        help="signals to this command that end the group by the same signal "
        f"(default: {DEFAULTS['signals_to_handle']})")  # fmt: skip
    add("--hang-timeout", metavar="SECONDS",
        help="a rank that gave no procession.beat() for so long, after its first one, has hung: "
        "the group has failed")  # fmt: skip
    add("--silence-timeout", metavar="SECONDS",
        help="a group of which no rank has written anything for so long has hung")  # fmt: skip
    add("--start-timeout", metavar="SECONDS",
        help="for all ranks to reach their program "
        f"(default: {DEFAULTS['start_timeout']})")  # fmt: skip
    add("--no-stacks", action="store_true",
        help="when a rank has failed, do not look where the others are")  # fmt: skip
    add("--forward", metavar="SIGNALS",
        help="signals to this command that every rank gets, and that do nothing else")  # fmt: skip
    add("--preempt", metavar="WHO",
        help="who takes this machine away, and how long before it says so: slurm, kubernetes, "
        "either with :SECONDS, or SIGNAL:SECONDS; procession.stopping() tells the "
        "ranks")  # fmt: skip
    add("--start-method", metavar="METHOD",
        help="how Python ranks come to be: forkserver (fast, the default), or spawn (a new "
        "interpreter each); fork is forkserver here")  # fmt: skip
    add("--preload", metavar="MODULES",
        help="what is imported once for all ranks: names with commas between them, none, or auto: "
        "what PROGRAM imports before it can tell the difference (default: auto)")  # fmt: skip
    add("--no-learn", action="store_true",
        help="do not keep what PROGRAM had imported at its end, for the next time")  # fmt: skip
    add("--dry-run", action="store_true",
        help="say what would be run and preloaded, and run nothing")  # fmt: skip
    add("--monitor-interval", metavar="SECONDS", help="no effect: nothing is polled here")
    add("--event-log-handler", metavar="NAME", help="no effect: see events.jsonl in --log-dir")


def _declare_nodes(parser: Parser) -> None:
    add = parser.add_argument_group("several machines, and where ranks meet").add_argument
    add("--nnodes", metavar="COUNT",
        help="how many machines, each with N ranks and its own launcher (default: 1)")  # fmt: skip
    add("--node-rank", metavar="NUMBER",
        help="which of them this is; the first one is 0 (default: 0; in an Indexed Job of "
        "Kubernetes, the number of the pod)")  # fmt: skip
    add("--master-addr", metavar="HOST",
        help="the address of machine 0 (default: 127.0.0.1)")  # fmt: skip
    add("--master-port", metavar="PORT",
        help="the port of rank 0 (default: 29500; on one machine, a free one)")  # fmt: skip
    add("--rdzv-endpoint", metavar="HOST:PORT", help="both of these in one word")
    add("--rdzv-backend", metavar="NAME",
        help="static; on one machine, also c10d or etcd (default: static)")  # fmt: skip
    add("--rdzv-id", metavar="ID", help="what the job is called, in TORCHELASTIC_RUN_ID")
    add("--rdzv-conf", metavar="NAME=VALUE,...", help="no effect: there is nothing to set up")
    add("--standalone", action="store_true",
        help="one machine, and a free port, whatever else is said")  # fmt: skip
    add("--local-addr", metavar="HOST",
        help="this machine's address, for MASTER_ADDR on one machine")  # fmt: skip


def _declare_engines(parser: Parser) -> None:
    add = parser.add_argument_group("engines, which give several machines").add_argument
    add("--engine", metavar="NAME",
        help="run N ranks on each of --nnodes machines of slurm or ray, as one group from here; "
        "outside an allocation of Slurm, send a job that does so. One task of srun on each machine "
        "is an agent of such a group by itself; none: not so")  # fmt: skip
    add("--lease", metavar="SECONDS",
        help="a machine of which nothing has been heard for so long is lost, and ends its ranks "
        "(default: 5)")  # fmt: skip
    add("--spare-nodes", metavar="COUNT",
        help="with --engine ray, hold so many machines more ready, for those that are lost; in an "
        "allocation of Slurm, they are what it has beyond --nnodes")  # fmt: skip
    add("--max-node-losses", metavar="COUNT",
        help="how many times a group starts again because a machine was lost, apart from "
        "--max-restarts (default: 0)")  # fmt: skip
    add("--time", metavar="LIMIT", help="the time limit of the job that is sent, as for sbatch")
    add("--partition", metavar="NAME", help="its partition")
    add("--account", metavar="NAME", help="its account")
    add("--engine-options", metavar="WORDS",
        help="further options for sbatch, in one word: '--qos=high --mem=64G'")  # fmt: skip


__all__ = ["DEFAULTS", "TORCHRUN", "TORCHRUN_PROG", "make_parser"]
