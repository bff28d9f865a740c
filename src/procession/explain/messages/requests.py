"""Messages about a run that was refused before anything started: P001 and on."""

from __future__ import annotations

from procession.explain.messages.entry import Entry

REQUESTS = (
    Entry(
        "P001",
        "The command was refused",
        (),
        "What was asked for cannot be done. The message says which word is wrong and where it "
        "comes from. Nothing was started; the exit code is 2.",
        "Change what the message names. `--help` lists the options; `procession run --dry-run "
        "...` shows what a command line would do, and which options come from variables or "
        "files.",
    ),
    Entry(
        "P002",
        "There is no such option",
        (
            "there is no option",
            "torchrun has no option",
            " sets nothing; did you mean",
            "it takes no words beside its options",
            "it takes one of ",
            "say for which shell",
        ),
        "An option is not spelled as procession knows it, or it belongs to the program and "
        "stands before the program's name.",
        "Options of procession stand before PROGRAM, and all that follows belongs to PROGRAM. "
        "`procession run --help` lists them.",
    ),
    Entry(
        "P003",
        "A value is not of the right kind",
        (
            " must be ",
            " takes no value",
            " needs a value: ",
            " is the most",
            " has two values for ",
            "say how many seconds are left after ",
            " is not a list of cores, such as",
            "not a choice of streams",
        ),
        "An option, a variable or a parameter has a value that it cannot have. The message "
        "names it, says what it takes, and shows what it got.",
        "Write a value of that kind. If you did not set it, look for PROCESSION_ and PET_ "
        "variables and for `[tool.procession]` in pyproject.toml: `procession run --dry-run` "
        "shows them.",
    ),
    Entry(
        "P004",
        "There is no such script",
        (
            "there is no script",
            "is a directory without a __main__.py",
            "cannot be read (permission",
        ),
        "PROGRAM looks like a Python script (it ends in .py, or has a slash), and there is no "
        "file of that name, seen from the current directory.",
        "Check the path and the directory. For a module write `-m package.module`.",
    ),
    Entry(
        "P005",
        "There is no such program",
        (
            " on the PATH",
            "there is no program",
            "is not executable; chmod +x it",
            "is a notebook: ",
            " is not the name of a program",
        ),
        "PROGRAM is no script here, and no directory of PATH has a program of that name; or the "
        "file is there, but may not be executed.",
        "Write its path (`./a.out`), `chmod +x` it, or name its interpreter. A program and its "
        "arguments are words of their own, not one word in quotes.",
    ),
    Entry(
        "P006",
        "There is no such module",
        (
            "there is no module",
            "is a package without a __main__.py",
            "is built into Python, and no",
        ),
        "`-m` names a module that this Python does not find from the current directory.",
        "Install it into this environment, change the directory, or leave out `-m` for a file.",
    ),
    Entry(
        "P007",
        "PROGRAM is missing",
        ("PROGRAM is missing",),
        "The command line has options only.",
        "Say what to run: `procession run -n 4 train.py`.",
    ),
    Entry(
        "P008",
        "Two options exclude each other",
        (
            " cannot go together",
            " does not go with ",
            "both say where ranks run",
            " goes with neither ",
            "cannot be: ",
        ),
        "They say two different things about the same matter. One of them may come from a "
        "variable or a file.",
        "Give one of them. The message says where each comes from.",
    ),
    Entry(
        "P009",
        "An option does not apply to this run",
        (
            "is_host has no meaning here: ",
            "is for the ranks of one machine",
            "needs --engine",
            "does nothing without ",
            "is for --engine",
            "is not needed: the engine numbers the nodes",
            "is for all programs: write it before the first one",
            " is for none",
            "for the ranks of one machine",
            "is for this machine only",
            "cannot read this process's input",
            "an engine: engine=",
            "is for scripts, and ",
            "is for one machine, but ",
            ", and this run is on one machine",
        ),
        "The option belongs to runs on one machine, or to those with `--engine`, or to one "
        "engine. On the command line that is refused; in a variable or file it is left out, "
        "with a note.",
        "Leave it out, or add what it needs.",
    ),
    Entry(
        "P010",
        "No accelerator is visible",
        (
            "this machine shows no",
            "needs a device",
            "ranks need a device each",
            "this node was given none",
            " GPUs each, but ",
        ),
        "`-n gpu`, `--devices` or `--virtual-local-rank` asks for more devices than this "
        "process can see. In a container or a job, fewer are visible than the machine has.",
        "`procession doctor` lists the devices and what hides them. Check CUDA_VISIBLE_DEVICES, "
        "the container's device options, and what the job asked for.",
    ),
    Entry(
        "P011",
        "A variable that lists devices cannot be used",
        (
            "hides all devices",
            "has a gap: there is no name between two commas",
            " is not the number of",
            " cannot be dealt out to ranks",
            " names the same device twice: ",
            " names a core twice",
            " names a device that is hidden: ",
        ),
        "CUDA_VISIBLE_DEVICES or its like is empty, has a gap, or names a device twice. The "
        "runtime would silently see fewer devices.",
        "Write names or numbers with single commas between them, or unset the variable.",
    ),
    Entry(
        "P012",
        "A function or an argument cannot be sent to the ranks",
        (
            "cannot be pickled for the ranks",
            "hold what only this machine has",
            "holds a queue, a pipe or shared memory",
        ),
        "Functions and arguments travel to the ranks as pickles. Locks, open files, sockets, "
        "generators and live CUDA tensors cannot travel. The message names the part that "
        "cannot.",
        "Make the object inside the function, in each rank; or pass a path or plain data. "
        'Queues and locks must be made with `multiprocessing.get_context("spawn")`.',
    ),
    Entry(
        "P013",
        "The current directory does not exist any more",
        ("the current directory does not exist any more",),
        "The directory in which the shell stands was removed, perhaps made anew under the same "
        "name.",
        "`cd` out of it and back, or give `cwd=`.",
    ),
    Entry(
        "P014",
        "A TOML file cannot be read",
        (" is not TOML: ", " must be a table", ": cannot read "),
        "The file of `--config`, or a pyproject.toml here or above, is not valid TOML, cannot "
        "be read, or has something else than options in its table.",
        "The message has the line and the column. Options stand in `[tool.procession]`.",
    ),
    Entry(
        "P015",
        "There is no such signal",
        (
            "there is no signal",
            ": no process can handle ",
            "SIGINT ends the group, and is not forwarded",
        ),
        "A signal is given by a name such as SIGUSR1 or its number. SIGKILL and SIGSTOP cannot "
        "be handled.",
        "`kill -l` lists the names.",
    ),
    Entry(
        "P016",
        "Silence cannot be noticed",
        ("output that goes straight to the console, or nowhere, is not seen",),
        "`--silence-timeout` sees only output that passes the launcher. A single rank without a "
        "prefix writes straight to the terminal.",
        "Give it a prefix (`--prefix '[{rank}] '`), or tee it to files (`-t 3`).",
    ),
    Entry(
        "P017",
        "There are not enough CPUs",
        ("CPUs each need", "too few for an exclusive one each"),
        "The ranks are to have CPUs of their own, and this process may use fewer than that "
        "takes. A container, a cpuset or `taskset` may leave it a part of the machine.",
        "Use fewer ranks or fewer `--cpus-per-rank`. `procession doctor` says how many CPUs "
        "there are.",
    ),
    Entry(
        "P018",
        "A memory limit cannot be used",
        (" is not a size, such as 4G", "is less than a program needs to start"),
        "`--memory-limit` takes a size: 4G, 512M, or a count of bytes.",
        "Write a size that a Python program can start in: 64M at the least, more with torch.",
    ),
    Entry(
        "P019",
        "A rank does not exist",
        (
            "there is no rank",
            "names rank",
            "the ranks are 0 to",
            "there is only rank 0",
        ),
        "An option or a mapping names a rank that the group does not have. Ranks count from 0.",
        "Check `-n`, and whether the number is meant on this machine or in the whole job.",
    ),
    Entry(
        "P020",
        "A mapping by rank is incomplete",
        ("a mapping by rank must name every rank from 0 to", "but the group's ranks are 0 to"),
        "`args`, `kwargs` or `env` was given by rank, and does not name exactly the ranks 0 to "
        "n - 1.",
        "Name every rank, or give one value for all.",
    ),
    Entry(
        "P021",
        "Shared data cannot be loaded this way",
        (
            "shared must be a function without parameters",
            "shared needs a Python function or script",
            "shared is for ranks that all run the same program",
            "shared is not for start_method='fork'",
            ": ** cannot be used in ",
        ),
        "`--shared` and `shared=` load once, before the ranks are forked, what all of them "
        "need. That takes Python ranks that all run the same program on this machine.",
        "For a script write `--shared 'module:function(\"literal\")'`; for a function give "
        "`shared=lambda: load(path)`.",
    ),
    Entry(
        "P022",
        "OpenTelemetry is not installed",
        ("OpenTelemetry is missing", "OpenTelemetry's SDK is missing", "there is no exporter"),
        "`--otel` and `procession.telemetry` need OpenTelemetry's SDK and the exporter that "
        "OTEL_TRACES_EXPORTER names.",
        "`pip install 'procession[otel]' opentelemetry-exporter-otlp`, or set "
        "OTEL_TRACES_EXPORTER=console.",
    ),
    Entry(
        "P023",
        "There is no such way to lay out logs",
        ("there is no entry point",),
        "`--logs-specs` names an entry point of the group torchrun.logs_specs, which an "
        "installed package brings.",
        "Install the package into this environment, or use one of the names in the message.",
    ),
    Entry(
        "P024",
        "There is no such command",
        ("there is no command",),
        "The first word after `procession` is one of its commands.",
        "To run a program write `procession run PROGRAM`. `procession --help` lists the commands.",
    ),
)
