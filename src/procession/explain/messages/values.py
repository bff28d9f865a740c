"""More messages about what was asked for and cannot be: P026 and on."""

from __future__ import annotations

from procession.explain.messages.entry import Entry

VALUES = (
    Entry(
        "P026",
        "This cannot be run",
        (
            "cannot run ",
            "cannot call ",
            "the command is empty",
            "holds a NUL character",
            "functions cannot be given by rank",
            "kwargs are for functions",
            " is not a directory",
            " is not the name of a module",
        ),
        "The program, its arguments or its directory are not of a kind that can be started.",
        "Give a function, or a command as a list of words: `['python', 'train.py']`. Keywords are "
        "for functions; by rank, programs and arguments can differ, and functions cannot.",
    ),
    Entry(
        "P027",
        "A variable of the ranks cannot be set",
        ("is what each rank is told by its launcher",),
        "`-x` names a variable, such as RANK, in which the launcher tells each rank its place.",
        "Use another name; places are chosen by `-n`, `--node-rank` and `--master-addr`.",
    ),
    Entry(
        "P028",
        "The kind of device is not clear",
        ("say which kind the ranks use",),
        "This machine has devices of several kinds, and `auto` cannot choose.",
        "Write the kind: `--devices cuda`.",
    ),
    Entry(
        "P029",
        "The TPU's shape is not known",
        (
            "the TPU's ",
            "the shape of a TPU",
            "a host of a TPU",
            ": the workers are 0 to ",
            " chips, which ",
            "is not a type of TPU",
            " is not three counts",
            "Unsupported nprocs",
            "Bad worker syntax",
        ),
        "How many chips this host has, and its place among the hosts, come from variables and "
        "from the metadata service of the machine. They are missing, or contradict each other.",
        "Set the variables that the message names. docs/migrating.md lists them for torch_xla.",
    ),
    Entry(
        "P030",
        "Nothing would be adopted",
        ("is no Python program: nothing would be adopted", "does not look at PYTHONPATH"),
        "`procession adopt` reaches a program through its Python interpreter. PROGRAM is none, or "
        "its interpreter ignores the environment (`-I`, `-E`, `-S`).",
        "`--children` adopts the Python programs that PROGRAM starts; in a program of your own, "
        "`procession.adopt()` does it.",
    ),
)
