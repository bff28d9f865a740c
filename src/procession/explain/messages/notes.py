"""Messages about what is done otherwise than one may expect, while the run goes on: P401 and on."""

from __future__ import annotations

from procession.explain.messages.entry import Entry

NOTES = (
    Entry(
        "P401",
        "Each rank may use so many threads",
        ("; set it to choose)",),
        "OMP_NUM_THREADS is not set, and each of several ranks would use all processors for its "
        "computations. They are shared out: processors divided by ranks; torchrun sets 1.",
        "Nothing, or set OMP_NUM_THREADS to the number that suits the program.",
    ),
    Entry(
        "P402",
        "An option has no effect",
        (" has no effect", " copies nothing: it is for what -t/--tee", " is left out: it "),
        "An option, a variable or a line of a file does not apply to this run. Where it comes from "
        "a variable or a file, it may be meant for other runs, and is left out.",
        "Leave it out here, or add what the message names. `procession run --dry-run` shows which "
        "options a run has, and from where.",
    ),
    Entry(
        "P403",
        "Nothing is imported early",
        (
            ": each rank gets a fresh interpreter, and ",
            "each rank loads for itself: they differ",
            ", and is left to the ranks",
        ),
        "What ranks import or load first is loaded once, and the ranks are forked from the process "
        "that did. Here that is not sound: the message names what would not survive a fork (a "
        "thread, a connection, a device in use), or what could not be imported. Ranks start more "
        "slowly, and are otherwise the same.",
        "Let the module do that later (in a function that ranks call), correct the name, or say "
        "`--preload none`.",
    ),
    Entry(
        "P404",
        "How a memory limit is kept",
        ("memory limit: ",),
        "A cgroup for each rank limits a rank with all that it starts. Where this user may not "
        "make one, RLIMIT_DATA limits each process alone, and the rank gets a MemoryError.",
        "Nothing. For cgroups, see `procession doctor`: they need a directory below "
        "/sys/fs/cgroup that belongs to this user.",
    ),
    Entry(
        "P405",
        "It is not known which GPU a rank uses",
        ("the ranks' GPUs are not known",),
        "`--numa-binding` puts a rank near its GPU, and here nobody says which that is. Ranks are "
        "dealt over the NUMA nodes in turn.",
        "Say `--devices cuda` (or another kind), or leave `--numa-binding` out.",
    ),
    Entry(
        "P406",
        "A warm run begins cold",
        ("warm: this run starts cold: ", "warm: nothing is kept: "),
        "What the run before kept cannot be used for this one, or this run cannot be kept for the "
        "next: the message says why. The run is the same, and imports for itself.",
        "Nothing, if it happens once. See docs/warm.md for what must be equal.",
    ),
    Entry(
        "P407",
        "Output or records are lost",
        (
            "the console did not take all output in time",
            "output of ranks is lost: ",
            "log files of ranks are cut off",
            "what ranks wrote to ",
            "cannot write to the run's directory",
            "what is written there may lack",
            "events were not written down, or not passed on",
            "the output of the ranks is not shown any more",
            "the output of the ranks was not shown to its end",
        ),
        "What reads the console was too slow or has gone, or the disk is full or hangs. The ranks "
        "did not wait for it. If all of them ended well, the exit code is 74.",
        "Make room, write to another disk (`--log-dir`), or keep the output in files (`-t 3`) if "
        "the console is slow.",
    ),
    Entry(
        "P408",
        "Something did not go, and was left",
        (" of SIGKILL, and was left",),
        "A process is still there seconds after SIGKILL: it is in uninterruptible sleep, mostly in "
        "a file system or a driver that does not answer.",
        "See P111.",
    ),
    Entry(
        "P409",
        "The group is not started again",
        ("not started again: ", " not shown; a log directory's events.jsonl has all"),
        "Restarts were asked for, and none is left, or a rule forbids one: the message says which.",
        "Mend the cause that the report names. See docs/restarts.md for the rules.",
    ),
    Entry(
        "P410",
        "A handler of events failed or did not return",
        ("a handler of events raised", " did not come to its end within "),
        "A function given as `on_event`, to `subscribe`, or as `on_failure` raised an exception, "
        "or still ran when the group was over. The group does not wait for it.",
        "Mend the function: the log has its traceback.",
    ),
    Entry(
        "P411",
        "What a rank reports is not believed",
        ("what it told is not believed",),
        "The rank wrote something else on the pipe of its report than procession does. A program "
        "that writes to all its open descriptors does so.",
        "Let the program write only to what it has opened. How the rank ended is known from the "
        "kernel.",
    ),
    Entry(
        "P412",
        "A signal has come",
        (
            ": waiting for ranks to end; ",
            " for ranks to end by themselves, then SIGTERM",
            " was stopped from another terminal (",
            ", which does nothing here: see --forward",
        ),
        "Somebody ended the run: Ctrl-C (SIGINT), `kill` or a batch system (SIGTERM), the terminal "
        "that was closed (SIGHUP), `procession stop`. Ranks get the signal, and time to end. The "
        "exit code is 128 + the signal's number.",
        "Ranks that need longer to save their work: `--shutdown-timeout SECONDS`; those that "
        "should know before: `--preempt` and `procession.stopping()`. A second Ctrl-C kills.",
    ),
    Entry(
        "P413",
        "The live view cannot be shown",
        ("no live view: ", "the live view failed and is gone", "the status line failed"),
        "The view needs one terminal that can move its cursor, and rich. If it failed, the run "
        "goes on.",
        "Without a terminal, `--status SECONDS` gives a line now and then.",
    ),
    Entry(
        "P414",
        "mpirun or srun has numbered this machine",
        (" by the variables of ",),
        "Variables say that something else has started this command once for each machine or "
        "rank, and which one this is. The ranks are numbered by them.",
        "Nothing, if it is meant so; see docs/starters.md. `--nnodes 1` makes a group of its own.",
    ),
    Entry(
        "P427",
        "An MPI program cannot find the others",
        (" is no open descriptor: MPI_Init",),
        "mpiexec or srun serves MPI programs by an open descriptor, which PMI_FD names. A program "
        "between it and procession has closed that descriptor.",
        "Nothing, if ranks do not use MPI. Else start `procession run` by mpiexec itself.",
    ),
    Entry(
        "P415",
        "A launch is left to torch",
        ("this launch is left to torch's agent", "it stays torch's", "stay as they are; install"),
        "`procession adopt` takes over what it can do exactly. This launch has something that it "
        "cannot: several machines, a rendezvous or an agent of one's own, another torch. torch's "
        "own launcher does it; the ranks are procession's where possible.",
        "Nothing, or leave out what the message names. If procession cannot be imported there, "
        "install it beside the program.",
    ),
    Entry(
        "P416",
        "Anybody who reaches the port may join",
        ("no secret is set: whoever reaches",),
        "Launchers on several machines find each other by an address and an id. Without a secret, "
        "whoever knows them could take part, as with torchrun.",
        "Give the same secret on all machines: `PROCESSION_JOB_KEY`, or `key_file=` in "
        "`--rdzv-conf`. See docs/several-machines.md.",
    ),
    Entry(
        "P417",
        "Launchers may not find each other",
        ("which is another machine for each of them", "waiting for the rendezvous at "),
        "The launchers of several machines meet at one address. It is missing, and each would "
        "look at itself, or nobody answers there yet.",
        "Give all machines the address of one of them: `--rdzv-endpoint HOST:PORT`, or "
        "`--master-addr`. Start that one, and see that its port can be reached.",
    ),
    Entry(
        "P418",
        "The machines do not share the log directory",
        ("name a directory that all machines share",),
        "Each machine writes its ranks' files to the same path, which is on its own disk.",
        "`--log-dir` with a directory on a file system that all machines share.",
    ),
    Entry(
        "P419",
        "A machine is no part of the job any more",
        (
            "this machine was not needed",
            "; the others go on",
            " was ended here: ",
            "the machines that are left go on without it",
            "this machine hosts the rendezvous now",
            "it does not go on here: ",
            "its ranks were ended on that node, and not by this job",
            "; its ranks are ended",
        ),
        "A machine left, was lost, or came too late, and its ranks have ended. A job that may have "
        "fewer machines goes on with the others; if the host of the rendezvous was lost, another "
        "one takes its place.",
        "Look at the machine and the network; start the same line there again to have it join.",
    ),
    Entry(
        "P421",
        "The shared value is loaded once more",
        ("is loaded once more by this rank",),
        "`--shared` names a function of the script itself. The copy that is run in the rank is "
        "another one than that of which the value was loaded.",
        "Put the function into a module of its own, and let the script import it.",
    ),
    Entry(
        "P422",
        "A rank's error cannot be written down",
        ("no traceback will be printed after a crash", "the error file was not written"),
        "Python's faulthandler could not be switched on, or the error file not be written: the "
        "message has the reason. The rank goes on.",
        "See the rights and the room of the directory that TORCHELASTIC_ERROR_FILE names.",
    ),
    Entry(
        "P423",
        "A name or parameter of torch's that is not followed",
        ("is renamed to ProcessContext since", "This method only supports start_method=spawn"),
        "torch warns here in the same words: the name is old, or `spawn` was given another start "
        "method.",
        "Use the new name; `start_processes` has the other methods.",
    ),
    Entry(
        "P428",
        "Another environment is active",
        (", not in the active environment ",),
        "VIRTUAL_ENV names an environment, and procession is installed in another one, by pipx or "
        "`uv tool`. Python ranks run in that of procession, and do not find other packages.",
        "Install procession in the active environment, and type the command of the message.",
    ),
)
