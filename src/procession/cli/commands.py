"""The subcommands of `procession`: their names, and what each does."""

COMMANDS = {
    "run": "run a program as a group of ranks",
    "adopt": "run a program in which torch's launchers are procession's",
    "ps": "list what runs here, and what ran",
    "logs": "show what the ranks of a run write",
    "attach": "come back to a run, and stay until it ends",
    "stop": "end a run",
    "report": "tell how a run is, or how it ended",
    "stacks": "show what each rank of a run is doing",
    "clean": "end and remove what launchers that were killed have left",
    "warm": "list or end what is kept for the next run",
    "manifest": "print what a cluster has to be told to run a program (kubernetes)",
    "explain": "tell what a message means, why it comes, and what to do",
    "doctor": "tell what this machine offers, and what falls back",
    "completion": "print a script by which bash, zsh or fish completes this command",
}

# Those that look at runs, or steer them, in `steer`.
STEERING = ("ps", "logs", "attach", "stop", "report", "stacks", "clean")
# In the environment of a detached launcher: a descriptor; see `detached`.
TOLD = "PROCESSION_TOLD"
