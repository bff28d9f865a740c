"""The options of `procession run` and `procession-torchrun`: one table, and the texts of its help.

From it come the reading of command lines, variables and TOML, `--help`, completion, refusals, and
docs/options.md. To add an option that reaches a rank:

1. a row here, with its `target`;
2. the field of that name in the policy (`values/`), with its check;
3. what the rank or its launcher does with the field;
4. a test.
"""

from __future__ import annotations

from procession.cli import readers
from procession.cli.words import (
    BY_MACHINE,
    ENGINES,
    NUMBERED_MACHINES,
    ONE_MACHINE,
    Option,
    Parser,
)
from procession.values.placement import MODES
from procession.values.policy import Stop
from procession.values.spec import START_METHODS

RUN, TORCHRUN = "procession run", "procession-torchrun"
USAGE = "procession run [-n N] [options] [-m | --no-python] PROGRAM [ARGS ...] [: -n N ...]"
TORCHRUN_USAGE = "procession-torchrun [options] SCRIPT [ARGS ...]"
DESCRIPTION = """\
Run PROGRAM as a group of N ranks. The first failure ends the group at once, and
a report says which rank failed first, and why. Every rank finds its place in
RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, as under torchrun, and
torchrun's options are all here."""

BRIEF = """\
usage: procession run [-n N] [options] PROGRAM [ARGS ...]

Run PROGRAM as a group of N ranks. The first failure ends all, and a report says which rank failed
first, and why. Ranks find RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, as under
torchrun.

what runs
  -n, --nproc-per-node N   how many ranks: a number, cpu, gpu or auto (default: 1)
  -m, --module             PROGRAM is a Python module
  -x, --env NAME=VALUE     a variable for the ranks; may be given several times
  --devices KIND           give each rank one device of its own: cuda, rocm, auto, ...
  --preload MODULES        import these once for all ranks (default: auto, what is known to be safe)
  --warm[=SECONDS]         keep what was imported for the next command
  --dry-run                show what would be run, and start nothing
output
  --log-dir DIR            make a directory for this run in DIR
  -t, --tee STREAMS        write to files and to the console: 1 stdout, 2 stderr, 3 both
  -r, --redirects STREAMS  write to files, not to the console
  --live                   show a table of the ranks below their output
  --status SECONDS         say how the run is, so often
  --detach                 go on without this terminal; see procession ps, logs, attach, stop
when something goes wrong
  --max-restarts N         start again after a failure, so often (default: 0)
  --restart-scope SCOPE    what starts again: group or rank (default: group)
  --hang-timeout SECONDS   end a group in which nothing has moved for SECONDS
  --silence-timeout SECONDS  the group has hung if no rank writes for so long
  --shutdown-timeout SECONDS  from the stop signal to SIGKILL (default: 30)
several machines
  --nnodes N               how many machines; N or MIN:MAX
  --rdzv-endpoint HOST:PORT  where the launchers meet, with --rdzv-backend c10d
  --engine NAME            start on machines by slurm, ray or ssh (--hosts h1,h2)

--help-all shows all options, where else they can be set, and exit codes.
"""

EPILOG = """\
PROGRAM is a Python script, or, if it is none, a program: a path, or a name on the PATH.
Options of procession stand before it; all that follows belongs to it. In its arguments,
${local_rank} stands for the number of the rank on this machine, ${rank} for that in the whole job,
and ${world_size} for the number of ranks. In those of Python programs, $$ is a dollar, as under
torchrun; those of other programs are left alone otherwise.

Several programs make one group, as with mpirun, where a lone colon and -n or -x stand between
them: procession run -n 1 ps.py : -n 3 worker.py. Each has its own -n, -x, -m and --no-python.

STREAMS is 0 (none), 1 (stdout), 2 (stderr) or 3 (both), or such a value by rank: 0:3,2:1.
Without --log-dir, -r and -t make a directory in TMPDIR, which stays; the command says where.

Options may also come from elsewhere. What comes first in this list counts: the command line;
variables such as PROCESSION_LOG_DIR; torchrun's, such as PET_LOG_DIR; the file of --config; the
table [tool.procession] in pyproject.toml, here or in a directory above. What comes from elsewhere
and does not apply to this run is left out, with a note; on the command line it is refused.

With --detach, the run goes on without a terminal: what the console would show is in console.log
in its directory (without --log-dir, below ~/.local/state/procession), beside report.txt and
result.json, which say how it ended. Its exit code is 0 if the group has started.

Under mpirun, mpiexec and srun, each of several commands reads from their variables which machine
or which rank it is; --nnodes 1 makes a group of its own.

Runs are seen and steered from other terminals: procession ps, logs, attach, stop, report.

exit codes: 0 if every rank succeeded, else that of the rank that failed first (128 + the number
of the signal that killed it); 130 after Ctrl-C, 143 after SIGTERM or procession stop; 141 if the
group was stopped because nobody reads its output any more (as in: procession run ... | head),
unless files keep it; 2 for a wrong command line; 124 if the group hung; 74 if every rank succeeded,
but some of their output, or of the run's own files, could not be written (a full disk).

examples:
  procession run -n 4 train.py --epochs 3
  procession run -n 4 --log-dir runs -t 3 train.py    files by rank, and the console
  procession run -n 8 --log-dir runs -r 3 -t 0:3 -m mypackage.train
  procession run --engine slurm -n 8 train.py         in an allocation, on all its machines
  procession run --nnodes 2 --node-rank 1 --master-addr node0 --master-port 29500 -n 8 train.py
"""
SIGNALS = "SIGTERM,SIGINT,SIGHUP,SIGQUIT"
STREAMS = ("0", "1", "2", "3")
SHELLS = ("bash", "zsh", "tcsh")
# Of two options that exclude each other, that of the earlier source counts.
APART = (
    ("json", "detach", "see result.json in the run's directory"),
    ("logs_specs", "detach", "the run's own directory has its logs"),
    ("pass_fds", "detach", "a detached run has none of this command's descriptors"),
    ("fold", "no_fold", ""),
    ("debug", "no_debug", ""),
    ("live", "json", "what reads JSON has no terminal; --status tells of the group on stderr"),
    ("numa_binding", "cpus_per_rank", "both say where ranks run"),
    ("virtual_local_rank", "devices", "--devices gives each rank one device as number 0, too"),
)
SSH = "ssh"

RANKS = (
    Option(("-n", "--nproc-per-node"), "N",
        "how many ranks: a number, cpu (as many as cores), gpu, xpu, or auto: as many as "
        "accelerators, or cores where there are none (default: 1)",
        default="1", target="program.nproc", torchrun=True, words=("auto", "cpu", "gpu", "xpu")),
    Option(("--name",), "NAME",
        "what the run is called by ps, in its id and in reports (default: after PROGRAM)",
        target="spec.name"),
    Option(("-x", "--env"), "NAME=VALUE",
        "a variable for the ranks of this PROGRAM; may be given several times",
        target="program.env", several=True),
    Option(("--devices",), "KIND",
        "give each rank one device of its own: cuda, rocm, intel, ascend, neuron, tpu, jax, "
        "or auto for what there is",
        words=("auto", "cuda", "rocm", "intel", "ascend", "neuron", "tpu", "jax")),
    Option(("--numa-binding",), "MODE",
        "run each rank on the CPUs of its GPU's NUMA node (node), of its socket (socket), on "
        "a share of the node's cores (exclusive), or of one cache (core-complex)",
        target="placement.numa", torchrun=True, words=MODES),
    Option(("--cpus-per-rank",), "COUNT", "give each rank so many CPUs that no other rank has",
        read=readers.whole, target="placement.cpus_per_rank"),
    Option(("--memory-limit",), "SIZE", "the most memory of each rank, for example 4G or 512M",
        target="placement.memory_limit"),
    Option(("--virtual-local-rank",), "",
        "LOCAL_RANK is 0 in each rank, and CUDA_VISIBLE_DEVICES (HIP_VISIBLE_DEVICES, if it is "
        "set) names one GPU",
        scope=BY_MACHINE, torchrun=True),
    Option(("--role",), "NAME", "what ranks find in ROLE_NAME (default: default)",
        target="node.role", torchrun=True),
    Option(("-m", "--module"), "", "PROGRAM is a Python module",
        target="program.module", torchrun=True),
    Option(("--no-python",), "", "PROGRAM is not Python, whatever it looks like",
        target="program.no_python", torchrun=True),
    Option(("--run-path",), "", "PROGRAM is a Python script, whatever it looks like",
        target="program.run_path", torchrun=True),
    Option(("--config",), "FILE", "read options from this TOML file, too"),
    Option(("--print-completion",), "SHELL",
        "print a script by which bash, zsh or tcsh completes this command, and exit",
        torchrun=True, words=SHELLS),
)  # fmt: skip
OUTPUT = (
    Option(("--log-dir",), "DIR",
        "make a directory for this run in DIR, with the files of each rank",
        target="logs.dir", torchrun=True),
    Option(("-r", "--redirects"), "STREAMS",
        "streams that go to files, not to the console (default: 0)",
        default="0", target="logs.redirect", torchrun=True, words=STREAMS),
    Option(("-t", "--tee"), "STREAMS",
        "streams that go to files and to the console (default: 0)",
        default="0", target="logs.tee", torchrun=True, words=STREAMS),
    Option(("--local-ranks-filter",), "RANKS",
        "show only these ranks on the console, for example 0,2,5-7",
        target="logs.ranks", torchrun=True),
    Option(("--duplicate-stdout-filters",), "TEXTS",
        "of what is teed, copy the lines that hold one of these texts (commas between them, "
        ",, for a comma) to filtered_stdout.log",
        read=readers.texts, target="logs.duplicate_stdout", torchrun=True),
    Option(("--duplicate-stderr-filters",), "TEXTS",
        "the same for stderr, to filtered_stderr.log",
        read=readers.texts, target="logs.duplicate_stderr", torchrun=True),
    Option(("--prefix",), "TEMPLATE",
        "what stands before each line: {rank}, {local_rank}, {width}, {name}, "
        "{node}, {host} are filled in; "
        "'' for nothing: lines of different ranks may then mix (default: '[{rank}] ', or nothing "
        "with one rank)",
        default="auto", target="logs.prefix"),
    Option(("--log-line-prefix-template",), "TEMPLATE",
        "the same as torchrun has it: ${role_name}, ${rank}, ${local_rank} and ${hostname} are "
        "filled in",
        target="logs.prefix", torchrun=True, variable="TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"),
    Option(("--fold",), "HOW",
        "show a line that several ranks write once, and their progress bars as one; numbers: also "
        "lines that differ in numbers only (default: on a terminal, lines)",
        read=readers.folding, bare="lines", target="logs.fold", words=("lines", "numbers")),
    Option(("--no-fold",), "", "show each line of each rank", target="logs.fold", sets=False),
    Option(("--all-output",), "",
        "show also what ranks write when another one has failed, or while the group is being "
        "ended, and tracebacks that the report has, too",
        target="logs.all_output"),
    Option(("--logs-specs",), "NAME",
        "lay logs out by this entry point of the group torchrun.logs_specs",
        target="run.logs_specs", scope=BY_MACHINE, torchrun=True),
    Option(("--live",), "",
        "show how the ranks are doing below their output, which then comes through this "
        "command; without a terminal, a line on stderr every minute",
        target="run.live", scope=ONE_MACHINE),
    Option(("--status",), "SECONDS",
        "say every SECONDS on stderr, in a line, how the ranks are doing",
        read=readers.seconds("seconds between two lines, 0.1 or more", 0.1, 7 * 86400 + 0.1),
        target="run.status", scope=BY_MACHINE),
    Option(("--json",), "",
        "at the end, print the result as JSON on stdout; all else goes to stderr",
        target="run.json"),
    Option(("--detach",), "", "give the terminal back when the group has started; see attach",
        target="run.detach", scope=ONE_MACHINE, instead="start it by nohup, with `&` at the end"),
    Option(("--stdin",), "RANK",
        "the rank that reads this command's standard input, or none; the other ranks read "
        "end-of-file, and so does this one in a run that a shell has started in the background "
        "(default: 0)",
        default="0", read=readers.reading_rank, target="spec.stdin", words=("0", "none")),
)  # fmt: skip
LIFE = (
    Option(("--max-restarts",), "COUNT",
        "how many times a failed group starts again (default: 0)",
        default="0", read=readers.whole, target="restart.max", torchrun=True),
    Option(("--restart-backoff",), "SECONDS[:MOST]",
        "wait so long before a restart, and twice as long before each further one, up to MOST "
        "(default: 0:300)",
        read=readers.backoff, target="restart.*", needs="max_restarts"),
    Option(("--restart-window",), "SECONDS",
        "only restarts of the last so many seconds count for --max-restarts",
        read=readers.number, target="restart.window", needs="max_restarts"),
    Option(("--min-uptime",), "SECONDS",
        "an attempt that fails earlier, in the same place as the one before it, is the last "
        "one (default: 0)",
        read=readers.number, target="restart.min_uptime", needs="max_restarts"),
    Option(("--restart-scope",), "SCOPE",
        "what starts again: group (all ranks, the default), or rank (the one that failed)",
        target="restart.scope", needs="max_restarts", words=("group", "rank")),
    Option(("--no-restart-codes",), "CODES",
        "exit codes by which a rank says that it is of no use to start again (default: 78)",
        read=readers.numbers, target="restart.never", needs="max_restarts"),
    Option(("--shutdown-timeout",), "SECONDS",
        f"from the stop signal to SIGKILL (default: {Stop().grace:g})",
        read=readers.number, target="stop.grace", torchrun=True,
        variable="TORCH_ELASTIC_SHUTDOWN_TIMEOUT"),
    Option(("--patience",), "SECONDS",
        "from the first failure to the stop signal, in which other ranks may end by themselves "
        "(default: 0)",
        read=readers.number, target="stop.patience", scope=ONE_MACHINE),
    Option(("--stop-signal",), "SIGNAL",
        "the signal by which ranks are asked to end (default: SIGTERM)",
        read=readers.any_signal, target="stop.signal"),
    Option(("--signals-to-handle",), "SIGNALS",
        f"signals to this command that end the group by the same signal (default: {SIGNALS})",
        default=SIGNALS, read=readers.ending_signals, target="run.signals", torchrun=True),
    Option(("--hang-timeout",), "SECONDS",
        "end the group as hung if a rank gave no procession.beat() for SECONDS after its first "
        "one; where no rank ever calls it, if none has written or moved in its code for so long "
        "(default: no limit)",
        read=readers.number, target="hang.timeout"),
    Option(("--silence-timeout",), "SECONDS",
        "a group of which no rank has written anything for so long has hung",
        read=readers.number, target="hang.silence"),
    Option(("--start-timeout",), "SECONDS",
        "for all ranks to reach their program (default: 300)",
        read=readers.number, target="hang.start"),
    Option(("--no-stacks",), "", "when a rank has failed, do not look where the others are",
        target="hang.stacks", sets=False),
    Option(("--debug",), "",
        "debug the first rank that raises, before the others are stopped", target="run.debug"),
    Option(("--no-debug",), "", "have breakpoint() in a rank raise, instead of waiting for who "
        "debugs it", target="run.debug", sets=False),
    Option(("--debugpy",), "PORT",
        "let editors debug each rank: those of a machine wait for them at 127.0.0.1, the first "
        "one at port 5678 or as --debugpy=PORT says, each further one at the next (needs debugpy)",
        read=readers.debugpy_port, bare="5678", target="run.debugpy"),
    Option(("--forward",), "SIGNALS",
        "signals to this command that every rank gets, and that do nothing else",
        read=readers.signals, target="run.forward"),
    Option(("--preempt",), "WHO",
        "who takes this machine away, and how long before it says so: slurm, kubernetes, "
        "either with :SECONDS, or SIGNAL:SECONDS; procession.stopping() tells the ranks",
        read=readers.PREEMPTION, target="run.notices"),
    Option(("--start-method",), "METHOD",
        "how Python ranks come to be: forkserver (fast, the default), or spawn (a new "
        "interpreter each); fork is forkserver here",
        default="forkserver", read=readers.start_method, target="spec.start_method",
        torchrun=True, words=START_METHODS),
    Option(("--pass-fds",), "NUMBERS",
        "descriptors of this command that ranks inherit under the same numbers: numbers with "
        "commas between them",
        read=readers.numbers, target="spec.pass_fds", scope=BY_MACHINE),
    Option(("--preload",), "MODULES",
        "what is imported once for all ranks: names with commas between them, none, or auto: "
        "the imports at the beginning of PROGRAM (default: auto)",
        default="auto", read=readers.modules, target="spec.preload", words=("auto", "none")),
    Option(("--shared",), "CALL",
        "load once what all ranks of a script need, and share its memory: module:function, or "
        "'module:function(ARGUMENTS)' with literals; the script takes it by procession.once",
        read=readers.SHARED, target="spec.shared", scope=ONE_MACHINE),
    Option(("--warm",), "SECONDS",
        "keep what was imported for the next run that makes the same imports, for 600 s or as "
        "--warm=SECONDS says, and take what is kept; see procession warm",
        read=readers.WARM, bare="on", target="spec.warm", scope=ONE_MACHINE),
    Option(("--dry-run",), "", "say what would be run and preloaded, and run nothing",
        target="run.dry"),
    Option(("--monitor-interval",), "SECONDS", "no effect: nothing is polled here", torchrun=True),
    Option(("--event-log-handler",), "NAME", "no effect: see events.jsonl in --log-dir",
        torchrun=True),
)  # fmt: skip
MACHINES = (
    Option(("--nnodes",), "COUNT",
        "how many machines, each with N ranks and its own launcher (default: 1); with c10d also "
        "MIN:MAX",
        default="1", target="node.count", torchrun=True),
    Option(("--node-rank",), "NUMBER",
        "which of them this is; the first one is 0 (default: 0; in an Indexed Job of "
        "Kubernetes, the number of the pod)",
        read=readers.count, target="node.rank", scope=NUMBERED_MACHINES, torchrun=True),
    Option(("--master-addr",), "HOST",
        "the address of machine 0; needed where there are several",
        target="node.address", scope=NUMBERED_MACHINES, torchrun=True),
    Option(("--master-port",), "PORT",
        "the port of rank 0 (default: 29500; on one machine, a free one)",
        target="node.port", scope=NUMBERED_MACHINES, torchrun=True),
    Option(("--rdzv-endpoint",), "HOST:PORT",
        "--master-addr and --master-port in one; with c10d, where launchers meet: on the machine "
        "with that address (port, where none is said: 29400)",
        target="node.port", scope=NUMBERED_MACHINES, torchrun=True),
    Option(("--rdzv-backend",), "NAME",
        "static: machines have numbers; c10d: launchers that are started with the same line on "
        "each machine find each other (default: static)",
        default="static", target="node.*", torchrun=True, words=("static", "c10d")),
    Option(("--rdzv-id",), "ID",
        "what the job is called, in TORCHELASTIC_RUN_ID; launchers with another id stay apart",
        target="node.run_id", torchrun=True),
    Option(("--rdzv-conf",), "NAME=VALUE,...",
        "join_timeout, last_call_timeout, is_host and others, see "
        "docs/several-machines.md",
        target="node.*", scope=NUMBERED_MACHINES, torchrun=True),
    Option(("--standalone",), "", "one machine, and a free port, whatever else is said",
        target="node.*", scope=NUMBERED_MACHINES, torchrun=True),
    Option(("--local-addr",), "HOST",
        "this machine's address, for MASTER_ADDR, and for the order of machines with c10d",
        target="node.address", scope=NUMBERED_MACHINES, torchrun=True),
)  # fmt: skip
OF_ENGINES = (
    Option(("--engine",), "NAME",
        "run N ranks on each of --nnodes machines of slurm, ray or ssh, as one group from "
        "here. Where srun starts this "
        "command once on each machine, these are one group by themselves; none: each is a group "
        "of its own",
        target="engine.name", words=("slurm", "ray", "ssh", "none")),
    Option(("--hosts",), "HOSTS",
        "with --engine ssh, the machines: h1,user@h2, with a number of ranks behind a colon "
        "if -n does not say it: h1:8,h2:8",
        target="options.hosts", scope=SSH),
    Option(("--hostfile",), "FILE",
        "the same, from a host file (default: that of PBS, LSF or SGE)",
        target="options.hostfile", scope=SSH),
    Option(("--remote-python",), "PATH",
        "with --engine ssh, the Python on the machines that has procession (default: the path "
        "of the one here, then python3)",
        target="options.remote_python", scope=SSH),
    Option(("--lease",), "SECONDS",
        "a machine of which nothing has been heard for so long is lost, and ends its ranks "
        "(default: 5)",
        read=readers.seconds("seconds, 1 or more", 1, 1e6), target="engine.lease", scope=ENGINES),
    Option(("--link-encryption",), "HOW",
        "auto: links to machines are encrypted where Python is 3.13 or later at both ends, "
        "else authenticated only; required: who cannot encrypt is refused (default: auto)",
        target="engine.link_encryption", scope=ENGINES,
        words=("auto", "required")),
    Option(("--spare-nodes",), "COUNT",
        "with --engine ray or ssh, hold so many machines more ready, for those that are lost; "
        "in an allocation of Slurm, they are what it has beyond --nnodes",
        read=readers.count, target="engine.spares", scope=ENGINES),
    Option(("--max-node-losses",), "COUNT",
        "how many times a group starts again because a machine was lost, apart from "
        "--max-restarts (default: such a loss counts as any failure)",
        read=readers.whole, target="restart.node_losses", scope=ENGINES),
    Option(("--engine-options",), "WORDS",
        "further options for ssh, in one word: '-p 2222'",
        target="options.engine_options", scope=SSH),
)  # fmt: skip
TABLE = {
    "": RANKS,
    "output": OUTPUT,
    "life": LIFE,
    "several machines, and where ranks meet": MACHINES,
    "engines, which give several machines": OF_ENGINES,
}
OPTIONS = {option.key: option for rows in TABLE.values() for option in rows}


def make_parser(*, torchrun: bool = False) -> Parser:
    """Make what reads the command line; with `torchrun`, of torchrun's options only."""
    parser = Parser(RUN, TABLE, USAGE, DESCRIPTION, EPILOG, BRIEF)
    if not torchrun:
        return parser
    table = {heading: tuple(o for o in rows if o.torchrun) for heading, rows in TABLE.items()}
    more = {"usage": TORCHRUN_USAGE, "brief": "", "abbreviated": True}
    return parser.__replace__(prog=TORCHRUN, table=table, **more)
