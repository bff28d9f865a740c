"""The options of `procession run` and `procession-torchrun`: one table, and the texts of its help.

From it come the reading of command lines, variables and TOML, `--help`, completion, refusals, and
docs/reference/cli.md. To add an option that reaches a rank:

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
Run PROGRAM as a group of N ranks. The first failure stops all ranks, and a
report names its cause. Ranks find torchrun's variables (RANK, LOCAL_RANK,
WORLD_SIZE, MASTER_ADDR, MASTER_PORT). All options of torchrun work."""

BRIEF = """\
usage: procession run [-n N] [options] PROGRAM [ARGS ...]

Run PROGRAM as a group of N ranks. The first failure stops all ranks, and a report names its cause.
Ranks find torchrun's variables: RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT.

start
  -n, --nproc-per-node N   set the number of ranks: a number, cpu, gpu or auto (default: 1)
  -m, --module             run PROGRAM as a Python module
  -x, --env NAME=VALUE     set a variable for the ranks; repeat it for more variables
  --devices KIND           give each rank its own device: cuda, rocm, auto and others
  --preload MODULES        import these modules once for all ranks (default: auto)
  --warm[=SECONDS]         keep the imports for the next run (default: off)
  --dry-run                print what would run, and exit
output
  --log-dir DIR            create a directory for this run in DIR
  -t, --tee STREAMS        write to files and the console: 1 stdout, 2 stderr, 3 both (default: 0)
  -r, --redirects STREAMS  write to files only (default: 0)
  --live                   show a table of the ranks below their output
  --detach                 return to the shell; see procession ps, logs, attach, stop
failures
  --max-restarts COUNT     restart a failed group up to COUNT times (default: 0)
  --restart-scope SCOPE    restart all ranks (group) or only the failed one (rank) (default: group)
  --hang-timeout SECONDS   fail the group as hung after SECONDS without progress (default: off)
  --shutdown-timeout SECONDS  wait SECONDS before SIGKILL when stopping ranks (default: 30)
  --debug                  open the debugger in the first rank that raises
several nodes
  --nnodes COUNT           set the number of nodes: a number, or MIN:MAX (default: 1)
  --rdzv-endpoint HOST:PORT  set where launchers meet, with --rdzv-backend c10d
  --engine NAME            start the nodes with slurm, ray or ssh (--hosts h1,h2)

--help-all shows all options, where else you can set them, and the exit codes.
"""

EPILOG = """\
PROGRAM is a Python script, or a command: a path, or a name on the PATH. Put procession options
before it. Later arguments go to the program. In these arguments, ${rank}, ${local_rank} and
${world_size} are replaced. In arguments of Python programs, $$ is a dollar, as with torchrun.

Several programs can form one group, with a colon between them, as in procession run -n 1 ps.py :
-n 3 worker.py. Each program has its own -n, -x, -m and --no-python.

STREAMS is 0 (none), 1 (stdout), 2 (stderr) or 3 (both), or one value per rank: 0:3,2:1.
Without --log-dir, -r and -t create a directory in TMPDIR, and the command prints its name.

You can set options elsewhere. The first one in this list counts: the command line; variables
such as PROCESSION_LOG_DIR; variables of torchrun such as PET_LOG_DIR; the file of --config; the
table [tool.procession] in pyproject.toml, here or in a parent directory. An option that does not
apply to the run is an error on the command line, and is ignored with a note elsewhere.

With --detach, console.log in the run directory has the console output, and report.txt and
result.json say how the run ended. Without --log-dir, the run directory is in
~/.local/state/procession. The exit code is 0 if the group has started.

Under mpirun, mpiexec and srun, several commands form one group. --nnodes 1 makes separate groups.

exit codes: 0 if every rank succeeded, else that of the first rank that failed (128 + the number
of the signal that killed it); 130 after Ctrl-C, 143 after SIGTERM or procession stop; 141 if the
reader of stdout has exited, as in procession run ... | head; 2 for a wrong command line; 124 if
the group hung; 74 if every rank succeeded, but output was lost (for example on a full disk).

examples:
  procession run -n 4 train.py --epochs 3
  procession run -n 4 --log-dir runs -t 3 train.py    files for each rank, and the console
  procession run -n 8 --log-dir runs -r 3 -t 0:3 -m mypackage.train
  procession run --engine slurm -n 8 train.py         on all nodes of an allocation
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
        "set the number of ranks: a number, cpu (one per core), gpu, xpu, or auto for one per "
        "accelerator, else one per core (default: 1)",
        default="1", target="program.nproc", torchrun=True, words=("auto", "cpu", "gpu", "xpu")),
    Option(("--name",), "NAME",
        "name the run in ps, in its id and in reports (default: the name of PROGRAM)",
        target="spec.name"),
    Option(("-x", "--env"), "NAME=VALUE",
        "set a variable for the ranks of this PROGRAM; repeat it for more variables",
        target="program.env", several=True),
    Option(("--devices",), "KIND",
        "give each rank its own device: cuda, rocm, intel, ascend, neuron, tpu, jax, or auto to "
        "detect the kind (default: no assignment)",
        words=("auto", "cuda", "rocm", "intel", "ascend", "neuron", "tpu", "jax")),
    Option(("--numa-binding",), "MODE",
        "bind each rank to CPUs of its GPU: the NUMA node (node), the socket (socket), a share of "
        "the node's cores (exclusive), or one cache (core-complex) (default: no binding)",
        target="placement.numa", torchrun=True, words=MODES),
    Option(("--cpus-per-rank",), "COUNT",
        "give each rank COUNT CPUs that no other rank uses (default: no binding)",
        read=readers.whole, target="placement.cpus_per_rank"),
    Option(("--memory-limit",), "SIZE",
        "limit the memory of each rank, for example 4G or 512M (default: no limit)",
        target="placement.memory_limit"),
    Option(("--virtual-local-rank",), "",
        "set LOCAL_RANK to 0 in each rank, and show each rank one GPU in CUDA_VISIBLE_DEVICES "
        "or HIP_VISIBLE_DEVICES",
        scope=BY_MACHINE, torchrun=True),
    Option(("--role",), "NAME",
        "set ROLE_NAME for the ranks (default: default)",
        target="node.role", torchrun=True),
    Option(("-m", "--module"), "",
        "run PROGRAM as a Python module",
        target="program.module", torchrun=True),
    Option(("--no-python",), "",
        "run PROGRAM as a command, even if it looks like a Python script",
        target="program.no_python", torchrun=True),
    Option(("--run-path",), "",
        "run PROGRAM as a Python script, even if it looks like a command",
        target="program.run_path", torchrun=True),
    Option(("--config",), "FILE",
        "read more options from this TOML file"),
    Option(("--print-completion",), "SHELL",
        "print the completion script for bash, zsh or tcsh, and exit",
        torchrun=True, words=SHELLS),
)  # fmt: skip
OUTPUT = (
    Option(("--log-dir",), "DIR",
        "create a directory for this run in DIR, with one directory for each rank (default: no "
        "files)",
        target="logs.dir", torchrun=True),
    Option(("-r", "--redirects"), "STREAMS",
        "write these streams to files only (default: 0)",
        default="0", target="logs.redirect", torchrun=True, words=STREAMS),
    Option(("-t", "--tee"), "STREAMS",
        "write these streams to files and to the console (default: 0)",
        default="0", target="logs.tee", torchrun=True, words=STREAMS),
    Option(("--local-ranks-filter",), "RANKS",
        "show only these ranks on the console, for example 0,2,5-7 (default: all)",
        target="logs.ranks", torchrun=True),
    Option(("--duplicate-stdout-filters",), "TEXTS",
        "copy teed lines of stdout that contain one of these texts to filtered_stdout.log; "
        "separate texts by commas, and write ,, for a comma",
        read=readers.texts, target="logs.duplicate_stdout", torchrun=True),
    Option(("--duplicate-stderr-filters",), "TEXTS",
        "copy teed lines of stderr that contain one of these texts to filtered_stderr.log",
        read=readers.texts, target="logs.duplicate_stderr", torchrun=True),
    Option(("--prefix",), "TEMPLATE",
        "put this text before each line, with {rank}, {local_rank}, {width}, {name}, {node} and "
        "{host} replaced; '' prints lines without a prefix, and lines of several ranks may then "
        "mix (default: '[{rank}] ', nothing for one rank)",
        default="auto", target="logs.prefix"),
    Option(("--log-line-prefix-template",), "TEMPLATE",
        "set the prefix as torchrun does, with ${role_name}, ${rank}, ${local_rank} and "
        "${hostname} replaced",
        target="logs.prefix", torchrun=True, variable="TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"),
    Option(("--fold",), "HOW",
        "print a line once if several ranks write it, and combine their progress bars; numbers "
        "also combines lines that differ only in numbers (default: lines on a terminal, else "
        "off)",
        read=readers.folding, bare="lines", target="logs.fold", words=("lines", "numbers")),
    Option(("--no-fold",), "",
        "print every line of every rank", target="logs.fold", sets=False),
    Option(("--all-output",), "",
        "also print the output of other ranks after a failure or during a stop, and tracebacks "
        "that the report repeats",
        target="logs.all_output"),
    Option(("--logs-specs",), "NAME",
        "lay out logs with this entry point of the group torchrun.logs_specs",
        target="run.logs_specs", scope=BY_MACHINE, torchrun=True),
    Option(("--live",), "",
        "show a table of the ranks below their output; without a terminal, print one line every "
        "minute",
        target="run.live", scope=ONE_MACHINE),
    Option(("--status",), "SECONDS",
        "print one line about the ranks on stderr every SECONDS (default: off)",
        read=readers.seconds("seconds between two lines, 0.1 or more", 0.1, 7 * 86400 + 0.1),
        target="run.status", scope=BY_MACHINE),
    Option(("-v", "--verbose"), "",
        "print every time what terminals show once: OMP_NUM_THREADS and advice on --preload",
        target="run.verbose", scope=BY_MACHINE),
    Option(("--json",), "",
        "print the result as JSON on stdout at the end, and everything else on stderr",
        target="run.json"),
    Option(("--detach",), "",
        "return to the shell after the start; procession attach shows the run again",
        target="run.detach", scope=ONE_MACHINE, instead="start it by nohup, with `&` at the end"),
    Option(("--stdin",), "RANK",
        "let this rank read the standard input of the command, or none; the other ranks read "
        "end-of-file (default: 0, and none in the background of a shell)",
        default="0", read=readers.reading_rank, target="spec.stdin", words=("0", "none")),
)  # fmt: skip
LIFE = (
    Option(("--max-restarts",), "COUNT",
        "restart a failed group up to COUNT times (default: 0)",
        default="0", read=readers.whole, target="restart.max", torchrun=True),
    Option(("--restart-backoff",), "SECONDS[:MOST]",
        "wait SECONDS before the first restart, and twice as long before each further one, up "
        "to MOST (default: 0:300)",
        read=readers.backoff, target="restart.*", needs="max_restarts"),
    Option(("--restart-window",), "SECONDS",
        "count only restarts of the last SECONDS for --max-restarts (default: count all)",
        read=readers.number, target="restart.window", needs="max_restarts"),
    Option(("--min-uptime",), "SECONDS",
        "stop retrying after two failures at the same location within SECONDS of their start "
        "(default: 0)",
        read=readers.number, target="restart.min_uptime", needs="max_restarts"),
    Option(("--restart-scope",), "SCOPE",
        "restart all ranks (group), or only the failed one (rank) (default: group)",
        target="restart.scope", needs="max_restarts", words=("group", "rank")),
    Option(("--no-restart-codes",), "CODES",
        "do not restart after these exit codes of a rank (default: 78)",
        read=readers.numbers, target="restart.never", needs="max_restarts"),
    Option(("--shutdown-timeout",), "SECONDS",
        f"wait SECONDS between the stop signal and SIGKILL (default: {Stop().grace:g})",
        read=readers.number, target="stop.grace", torchrun=True,
        variable="TORCH_ELASTIC_SHUTDOWN_TIMEOUT"),
    Option(("--patience",), "SECONDS",
        "wait SECONDS after the first failure before stopping the other ranks (default: 0)",
        read=readers.number, target="stop.patience", scope=ONE_MACHINE),
    Option(("--stop-signal",), "SIGNAL",
        "stop ranks with this signal (default: SIGTERM)",
        read=readers.any_signal, target="stop.signal"),
    Option(("--signals-to-handle",), "SIGNALS",
        f"stop the group when the command gets one of these signals (default: {SIGNALS})",
        default=SIGNALS, read=readers.ending_signals, target="run.signals", torchrun=True),
    Option(("--hang-timeout",), "SECONDS",
        "fail the group as hung if a rank does not call procession.beat() for SECONDS; if no "
        "rank ever calls it, if no rank writes or changes its stack for SECONDS (default: off)",
        read=readers.number, target="hang.timeout"),
    Option(("--silence-timeout",), "SECONDS",
        "fail the group as hung if no rank writes for SECONDS (default: off)",
        read=readers.number, target="hang.silence"),
    Option(("--start-timeout",), "SECONDS",
        "fail the group if a rank does not reach its program within SECONDS (default: 300)",
        read=readers.number, target="hang.start"),
    Option(("--no-stacks",), "",
        "do not collect stacks after a failure",
        target="hang.stacks", sets=False),
    Option(("--debug",), "",
        "open the debugger in the first rank that raises, before any rank is stopped",
        target="run.debug"),
    Option(("--no-debug",), "",
        "make breakpoint() in a rank raise instead of waiting for a debugger",
        target="run.debug", sets=False),
    Option(("--debugpy",), "PORT",
        "let editors attach to each rank at 127.0.0.1, at PORT + LOCAL_RANK; needs debugpy "
        "(default: off; without =PORT: 5678)",
        read=readers.debugpy_port, bare="5678", target="run.debugpy"),
    Option(("--forward",), "SIGNALS",
        "send these signals to every rank when the command gets them, and do nothing else "
        "(default: none)",
        read=readers.signals, target="run.forward"),
    Option(("--preempt",), "WHO",
        "set the preemption source and its warning time: slurm, kubernetes, SIGNAL:SECONDS; "
        "procession.stopping() announces it to the ranks (default: none)",
        read=readers.PREEMPTION, target="run.notices"),
    Option(("--start-method",), "METHOD",
        "start Python ranks by forking a prepared process (forkserver) or by new interpreters "
        "(spawn); fork means forkserver here (default: forkserver)",
        default="forkserver", read=readers.start_method, target="spec.start_method",
        torchrun=True, words=START_METHODS),
    Option(("--pass-fds",), "NUMBERS",
        "pass these file descriptors of the command to the ranks; separate numbers by commas "
        "(default: none)",
        read=readers.numbers, target="spec.pass_fds", scope=BY_MACHINE),
    Option(("--preload",), "MODULES",
        "import these modules once for all ranks; auto takes the imports at the top of PROGRAM "
        "(default: auto)",
        default="auto", read=readers.modules, target="spec.preload", words=("auto", "none")),
    Option(("--shared",), "CALL",
        "call module:function, or 'module:function(ARGUMENTS)' with literals, once for all "
        "ranks and share its memory; a script gets the result from procession.once (default: "
        "off)",
        read=readers.SHARED, target="spec.shared", scope=ONE_MACHINE),
    Option(("--warm",), "SECONDS",
        "keep the imports for the next run with the same imports, for 600 seconds or "
        "--warm=SECONDS, and use the ones that an earlier run kept (default: off)",
        read=readers.WARM, bare="on", target="spec.warm", scope=ONE_MACHINE),
    Option(("--dry-run",), "",
        "print what would run and what would be preloaded, and exit",
        target="run.dry"),
    Option(("--monitor-interval",), "SECONDS",
        "do nothing: procession does not poll", torchrun=True),
    Option(("--event-log-handler",), "NAME",
        "do nothing: --log-dir writes events.jsonl",
        torchrun=True),
)  # fmt: skip
MACHINES = (
    Option(("--nnodes",), "COUNT",
        "set the number of nodes, each with N ranks and its own launcher; MIN:MAX needs c10d "
        "(default: 1)",
        default="1", target="node.count", torchrun=True),
    Option(("--node-rank",), "NUMBER",
        "set the number of this node, from 0 (default: 0; in a Kubernetes Indexed Job, the "
        "pod's index)",
        read=readers.count, target="node.rank", scope=NUMBERED_MACHINES, torchrun=True),
    Option(("--master-addr",), "HOST",
        "set the address of node 0; required for several nodes",
        target="node.address", scope=NUMBERED_MACHINES, torchrun=True),
    Option(("--master-port",), "PORT",
        "set the port of rank 0 (default: 29500; on one node, a free port)",
        target="node.port", scope=NUMBERED_MACHINES, torchrun=True),
    Option(("--rdzv-endpoint",), "HOST:PORT",
        "set --master-addr and --master-port together; with c10d, set where launchers meet "
        "(default port with c10d: 29400)",
        target="node.port", scope=NUMBERED_MACHINES, torchrun=True),
    Option(("--rdzv-backend",), "NAME",
        "number nodes by --node-rank (static), or let launchers with the same line find each "
        "other (c10d) (default: static)",
        default="static", target="node.*", torchrun=True, words=("static", "c10d")),
    Option(("--rdzv-id",), "ID",
        "set the id of the job, TORCHELASTIC_RUN_ID; launchers with different ids do not join",
        target="node.run_id", torchrun=True),
    Option(("--rdzv-conf",), "NAME=VALUE,...",
        "set join_timeout, last_call_timeout, is_host and others; see docs/clusters/rendezvous.md",
        target="node.*", scope=NUMBERED_MACHINES, torchrun=True),
    Option(("--standalone",), "",
        "run on one node with a free port, and ignore the other rendezvous options",
        target="node.*", scope=NUMBERED_MACHINES, torchrun=True),
    Option(("--local-addr",), "HOST",
        "set the address of this node, for MASTER_ADDR and for the order of nodes with c10d "
        "(default: detected)",
        target="node.address", scope=NUMBERED_MACHINES, torchrun=True),
)  # fmt: skip
OF_ENGINES = (
    Option(("--engine",), "NAME",
        "start N ranks on each of --nnodes nodes with slurm, ray or ssh; none makes the "
        "commands of one srun separate groups (default: no engine)",
        target="engine.name", words=("slurm", "ray", "ssh", "none")),
    Option(("--hosts",), "HOSTS",
        "list the nodes for --engine ssh, with an optional number of ranks: h1,user@h2:8",
        target="options.hosts", scope=SSH),
    Option(("--hostfile",), "FILE",
        "read the nodes for --engine ssh from a host file (default: the one of PBS, LSF or SGE)",
        target="options.hostfile", scope=SSH),
    Option(("--remote-python",), "PATH",
        "set the Python on the nodes for --engine ssh (default: the path of this one, then "
        "python3)",
        target="options.remote_python", scope=SSH),
    Option(("--lease",), "SECONDS",
        "treat a node as lost after SECONDS without contact; the node then ends its ranks "
        "(default: 5)",
        read=readers.seconds("seconds, 1 or more", 1, 1e6), target="engine.lease", scope=ENGINES),
    Option(("--link-encryption",), "HOW",
        "encrypt links to nodes if both Pythons are 3.13 or later (auto), or refuse nodes that "
        "cannot (required) (default: auto)",
        target="engine.link_encryption", scope=ENGINES,
        words=("auto", "required")),
    Option(("--spare-nodes",), "COUNT",
        "keep COUNT standby nodes to replace lost ones, with --engine ray or ssh; on Slurm, the "
        "standby nodes are those beyond --nnodes (default: 0)",
        read=readers.count, target="engine.spares", scope=ENGINES),
    Option(("--max-node-losses",), "COUNT",
        "restart up to COUNT times after a lost node, in addition to --max-restarts (default: "
        "count a lost node as a failure)",
        read=readers.whole, target="restart.node_losses", scope=ENGINES),
    Option(("--engine-options",), "WORDS",
        "pass these options to ssh, in one word such as '-p 2222' (default: none)",
        target="options.engine_options", scope=SSH),
)  # fmt: skip
TABLE = {
    "": RANKS,
    "output": OUTPUT,
    "failures and start": LIFE,
    "several nodes": MACHINES,
    "engines": OF_ENGINES,
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
