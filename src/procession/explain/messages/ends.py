"""Messages about how a rank ended: P101 and on."""

from __future__ import annotations

from procession.explain.messages.entry import Entry

ENDS = (
    Entry(
        "P101",
        "A rank raised an exception",
        (" raised ",),
        "The program of that rank raised an exception that nobody caught. It is the failure "
        "that happened first; the other ranks were stopped because of it, and are not to blame.",
        "Read the traceback below the first line. Where the same step works on other ranks, "
        "look at what differs: the data of that rank, its device, its file system. `--log-dir "
        "runs -t 3` keeps the output of all ranks; `--max-restarts N` starts the group again.",
    ),
    Entry(
        "P102",
        "A rank exited with a code that is not 0",
        ("exited with code",),
        "The program ended by itself with an exit code, by `sys.exit(...)` or as a program that "
        "is no Python script, without an exception.",
        "The code is the program's own: look it up in the program's documentation. The last "
        "lines of its stderr are in the report. 126 and 127 come from a shell that could not "
        "run a command.",
    ),
    Entry(
        "P103",
        "A rank was killed by a signal",
        ("was killed by ",),
        "SIGSEGV, SIGBUS, SIGABRT and SIGFPE are faults in native code (a C extension, CUDA, a "
        "wrong version of a library). SIGKILL and SIGTERM were sent by somebody: the kernel for "
        "lack of memory, a batch system, another user or program. The signal is not one that "
        "procession sent.",
        "For faults in native code run again with `-x PYTHONFAULTHANDLER=1`, which prints the "
        "Python stack. For SIGKILL see P104, `dmesg`, and the log of the batch system.",
    ),
    Entry(
        "P104",
        "A rank was killed, likely out of memory",
        (", likely out of memory",),
        "The kernel ended the rank, or its child, with SIGKILL because the machine, or the cgroup "
        "(container, Slurm job, `--memory-limit`), had no memory left.",
        "The report has the rank's peak memory: multiply it by the number of ranks and compare "
        "it with what there is. Use fewer ranks or data-loader workers, a smaller batch, or "
        "load common data once with `--shared`. In Slurm, ask for more with `--mem`.",
    ),
    Entry(
        "P105",
        "A rank hung",
        ("no beat for ", "no rank has written anything for"),
        "A limit that you set has passed: the rank gave no `procession.beat()` for "
        "`--hang-timeout` seconds, or no rank wrote anything for `--silence-timeout` seconds. "
        "Most often one rank waits for another in a collective operation that the other never "
        "reaches.",
        'Read "when it hung, the ranks were": the rank that is where no other is, is the one to '
        "look at. If it was only slow (a checkpoint, a compilation), make the limit longer "
        "than the longest step without a beat.",
    ),
    Entry(
        "P106",
        "A rank could not be started",
        ("could not be started", "did not start in time"),
        "The process could not be made, its program could not be executed, or it did not reach "
        "its program within `--start-timeout` seconds; or not all machines of a job came in time. "
        "All ranks that were started already were ended.",
        "The line says what the system answered: no such file, permission denied, no processes "
        "or memory left (`ulimit -u`, the pids limit of a container). `procession doctor` tells "
        "which facilities are missing on this machine. Of machines, it says how many came: start "
        "the same line on the others, or see why they cannot reach this one.",
    ),
    Entry(
        "P107",
        "A rank returned a value that cannot be pickled",
        (" that cannot be pickled (",),
        "What a function returns travels from its process to yours as a pickle. Locks, open "
        "files, generators and CUDA contexts cannot travel.",
        "Return plain data, arrays or a state dict instead, or write to a file and return its "
        "path.",
    ),
    Entry(
        "P108",
        "A rank ended before its function had returned",
        ("exited with code 0 before its function had returned",),
        "Something in the function ended the process with exit code 0 (`os._exit(0)`, a library "
        "that exits). For a function this is a failure, since there is no value.",
        "Find who ends the process. If it is meant so, start a command or a script instead of a "
        "function: for these exit code 0 is success.",
    ),
    Entry(
        "P109",
        "A rank died while it sent its value",
        ("died while it sent its value",),
        "The process was ended while its return value was on its way. Large values need memory "
        "for their pickle beside themselves, so memory that ran out is the usual reason.",
        "Return less, or write to a file and return its path. See P104.",
    ),
    Entry(
        "P110",
        "A rank was interrupted",
        ("was interrupted (KeyboardInterrupt)",),
        "The rank got SIGINT, and not from procession: by `kill -INT`, or because the program "
        "raised KeyboardInterrupt itself.",
        "Ctrl-C in the terminal ends the whole group in order and is not reported like this. "
        "Look for what sends the signal.",
    ),
    Entry(
        "P111",
        "A rank could not be ended",
        ("could not be ended",),
        "The process is still there, although SIGKILL was sent. It is in uninterruptible sleep: "
        "a network disk that does not answer, or a driver that hangs.",
        "The report says where in the kernel it is. The process goes when the disk or device "
        "answers. Look at `dmesg` and at the mounts; often only a restart of the machine helps.",
    ),
    Entry(
        "P112",
        "A rank was lost with its node",
        ("was lost with its node", ") was lost: "),
        "The driver has not heard of that machine for `--lease` seconds: it crashed, its "
        "network was cut, or its agent was killed. The ranks there end by themselves after the "
        "same time.",
        "Look at the machine and the network. `--max-node-losses N` lets the job start again, "
        "on a spare machine where there is one (`--spare-nodes`).",
    ),
    Entry(
        "P113",
        "A rank was killed because its forkserver was lost",
        ("was killed when its forkserver was lost", "the forkserver (pid"),
        "The small process that is the parent of the ranks was killed, by somebody or because "
        "memory ran out. Its ranks die with it, so that nothing is left.",
        'See P104 if memory ran out. If a script ends "all Python processes" of a user, let it '
        "spare this one.",
    ),
    Entry(
        "P114",
        "A rank vanished",
        ("vanished: its exit status is not known",),
        "The process is gone, and nobody could read its exit status: its parent was killed at "
        "the same moment.",
        "Look for what killed processes on this machine at that time: `dmesg`, the batch system.",
    ),
)
