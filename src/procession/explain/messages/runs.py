"""Messages about runs that go on or have ended, and their files: P301 and on."""

from __future__ import annotations

from procession.explain.messages.entry import Entry

RUNS = (
    Entry(
        "P301",
        "There is no such run",
        ("there is no run", " is not the directory of a run: it holds no run.json"),
        "RUN is the id of a run, the beginning of one, a name, a launcher's pid, a directory, "
        "or `last`. None fits. Runs of other users, and of a shell with another XDG_RUNTIME_DIR "
        "or TMPDIR, are not seen.",
        "`procession ps --all` lists what runs here, and what ran.",
    ),
    Entry(
        "P302",
        "It is not clear which run is meant",
        (
            "say which run: see `procession ps`",
            "one RUN, not",
            " fits several runs: ",
        ),
        "A command that looks at a run, or ends one, takes the name of exactly one.",
        "`procession ps` lists them; `last` is the newest that this terminal or directory started.",
    ),
    Entry(
        "P303",
        "A run cannot be seen from other terminals",
        ("this run cannot be seen from other terminals",),
        "The directory for the run's socket belongs to somebody else, is open to others, or "
        "could not be made. The run itself goes on.",
        "`chmod 700` the directory that the message names, or set XDG_RUNTIME_DIR to one of "
        "your own.",
    ),
    Entry(
        "P304",
        "There are no files of a run's output",
        (
            "has no files of its output",
            " has no files by rank: ",
            "keeps no files, and its lines do not say",
            "goes straight to its own terminal",
            "there are no files ",
            "this is what it shows now",
        ),
        "The run was started without files, so its output went to its own terminal.",
        "Start it with `--log-dir runs -t 3`, or with `--detach`, which keeps what the console "
        "would show, of all ranks together.",
    ),
    Entry(
        "P305",
        "The run's directory cannot be prepared",
        (
            "cannot prepare the run",
            "log directory: ",
            "must name a directory, not ''",
            "this user has no home directory",
        ),
        "The directory of `--log-dir` cannot be made or written: no permission, a file of that "
        "name, a full disk.",
        "Name another directory, or make room. Nothing was started.",
    ),
    Entry(
        "P306",
        "Nobody reads the standard output any more",
        ("nobody reads the standard output any more",),
        "The reader of a pipe has gone, as with `procession run ... | head`. As any member of a "
        "pipeline, the group is stopped (exit code 141), unless files keep its output.",
        "Keep the output in files (`--log-dir runs -t 3`) if the group is to go on without a "
        "reader.",
    ),
    Entry(
        "P307",
        "What was printed is lost",
        ("what was to be printed is lost",),
        "The file or device behind the standard output did not take it, mostly a full disk. All "
        "ranks may have ended well: the exit code is then 74.",
        "Make room, or write to another disk.",
    ),
    Entry(
        "P308",
        "The kernel's watches are used up",
        ("too many inotify instances", "too many inotify watches"),
        "Teed output is followed by inotify, of which each user has a limited number. Editors "
        "and file synchronisers use many.",
        "`sysctl fs.inotify.max_user_instances=1024` (or `max_user_watches`), or close what "
        "uses them.",
    ),
    Entry(
        "P309",
        "A facility of the kernel is missing",
        ("is missing or refused here (",),
        "procession needs a system call that this kernel lacks (before 5.4), or that a "
        "container's seccomp profile refuses.",
        "`procession doctor` tells what works here, what does not, and what helps.",
    ),
    Entry(
        "P312",
        "The run is driven from another machine",
        (
            " is driven from ",
            "which is one run, driven from ",
            ": nothing runs there",
            "type this on its first node",
        ),
        "A job on several machines is one run, and its command runs on one of them. It can be "
        "looked at and ended there.",
        "Type the command there; under Slurm that is done by itself while the job runs.",
    ),
    Entry(
        "P313",
        "A run does not answer",
        (
            " cannot be reached",
            "has ended: no rank is there",
            "does not listen any more",
            "the run did not answer within",
            "the run has just ended",
            "has ended, or its launcher was killed",
            "its launcher was killed",
            "the launcher was killed by signal",
            "the launcher of ",
            "it cannot be asked",
            "no thread can be started",
            "others are looking at this run already",
            " is still there after ",
            "of another version of procession",
        ),
        "The run has ended at this moment, its launcher was killed, is stopped, or is busy, or "
        "it belongs to a program of your own that was started without `control=True`.",
        "`procession ps` shows what is there. A launcher that was killed leaves no ranks; "
        "`procession clean` looks for what did not go.",
    ),
    Entry(
        "P314",
        "The keeper of warm runs cannot be used",
        ("the keeper cannot be used",),
        "The process that keeps imports between commands does not answer, or is of another "
        "version.",
        "End it, as the message says; the next run with `--warm` starts another one.",
    ),
)
