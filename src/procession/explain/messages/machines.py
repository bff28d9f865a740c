"""Messages about jobs on several machines: P201 and on."""

from __future__ import annotations

from procession.explain.messages.entry import Entry

MACHINES = (
    Entry(
        "P201",
        "There is no such engine",
        ("there is no engine",),
        "`--engine` names what gives the machines: slurm, ray, ssh, or one that an installed "
        "package adds.",
        "Check the spelling, and that the package that brings the engine is installed in this "
        "Python.",
    ),
    Entry(
        "P202",
        "Not inside an allocation of Slurm",
        ("not in an allocation of Slurm",),
        "In Python, the engine for Slurm works inside a job: in a script for sbatch, or in the "
        "shell of salloc.",
        "Run it there. From outside, `procession run --engine slurm ...` sends a job itself.",
    ),
    Entry(
        "P203",
        "More nodes are asked for than there are",
        (
            "nodes are asked for, but the allocation (job",
            "nodes are asked for, but srun has started",
            " hosts are given",
        ),
        "`--nnodes`, with the spare nodes, is more than the allocation or the list of hosts has.",
        "Ask for more nodes (`sbatch --nodes`), name more hosts, or say a smaller `--nnodes`.",
    ),
    Entry(
        "P204",
        "srun started more than one task on a node",
        ("tasks on a node, but one is enough for all ranks there",),
        "Under `srun`, one `procession run` on each node starts all ranks of that node.",
        "Write `srun --ntasks-per-node=1 procession run -n RANKS_PER_NODE ...`.",
    ),
    Entry(
        "P205",
        "MUNGE is missing",
        ("tasks of srun need it to trust each other",),
        "Tasks of one `srun` step find each other by MUNGE, which Slurm itself uses. Its "
        "commands are not on the PATH of the nodes.",
        "Install the package munge on the nodes, or run `procession run --engine slurm` in a "
        "batch script, without `srun` before it.",
    ),
    Entry(
        "P206",
        "The commands of Slurm are missing",
        ("the commands of Slurm are needed",),
        "`--engine slurm` calls srun, sbatch, scontrol and squeue.",
        "Run it on a log-in node or inside a job, or install the package slurm-client.",
    ),
    Entry(
        "P207",
        "Ray is not there",
        (
            "Ray is not installed here",
            "Ray is installed, but cannot be imported",
            "wanted, and there is no cluster: run 'ray start --head'",
            "no Ray answers at",
            "procession cannot be imported",
        ),
        "`--engine ray` needs Ray in this Python, a cluster that answers at RAY_ADDRESS, and "
        "procession on all of its nodes.",
        "`pip install 'procession[ray]'` on all nodes; `ray start --head` on one machine and "
        "`ray start --address=HEAD:6379` on the others; then set RAY_ADDRESS=HEAD:6379.",
    ),
    Entry(
        "P208",
        "Ray did not give the nodes",
        ("Ray did not give", "Ray found no node for slot"),
        "The cluster has too few nodes with the CPUs and GPUs that each node of the job needs, "
        "or they are in use.",
        "The message says what is wanted and what is free. Use fewer ranks for each node, wait, "
        "or add nodes.",
    ),
    Entry(
        "P209",
        "A list of hosts cannot be used",
        (
            "is no host; write HOST, USER@HOST or HOST:RANKS",
            "is no count of ranks",
            " names no host",
            "on which hosts? Say --hosts",
            "hosts have room for different numbers of ranks",
            "it is no list of hosts",
        ),
        "`--hosts` or the host file is empty, has a word that is no host, or gives hosts "
        "different numbers of ranks.",
        "Write `--hosts h1:8,h2:8`, or one host in each line of the file. All hosts must have "
        "the same number of ranks; `-n` says it for all.",
    ),
    Entry(
        "P210",
        "A machine cannot be reached by ssh",
        (
            "must work without a question (a key, an agent)",
            "its host key is not known, or has changed",
            "its name cannot be resolved",
            "no ssh server listens there",
            "its log-in ended without starting an agent",
        ),
        "`ssh HOST true` does not work from here without a question, or the log-in prints or "
        "exits before it runs a command.",
        "Try `ssh HOST true` by hand until it prints nothing and asks nothing: a key, an agent, "
        "a host key that is known. Options of ssh go into `~/.ssh/config` or "
        "`--engine-options`.",
    ),
    Entry(
        "P211",
        "procession was not found on a machine",
        (
            "install procession there, or name the right Python with --remote-python",
            "is procession installed there?",
            "the Python of this command must be at the same place on all nodes",
        ),
        "The agent of a node is started by the Python of this command, at the same path, then "
        "by `python3` on the machine's PATH. None of them has procession.",
        "Use an environment that all machines share, install procession there, or name its "
        "Python: `--remote-python PATH`.",
    ),
    Entry(
        "P212",
        "Machines have different versions of procession",
        ("install the same on all nodes",),
        "Driver and agents speak one protocol, which belongs to a version.",
        "Install the same version on all machines.",
    ),
    Entry(
        "P213",
        "An agent cannot reach the driver",
        ("cannot reach the driver",),
        "Agents connect by TCP to the machine where the command runs, on a port that it "
        "chooses. A firewall may be between them, or that machine has several addresses and "
        "offered the wrong one.",
        "Open the ports between the nodes. `PROCESSION_DRIVER_ADDRESS` names the address that "
        "the nodes can reach.",
    ),
    Entry(
        "P214",
        "Too few descriptors for so many nodes",
        ("descriptors in this process, and it may have",),
        "The driver has a connection to each node, and the hard limit of open files is too low.",
        "Raise it (`ulimit -Hn`, limits.conf, the unit's LimitNOFILE), or take fewer nodes.",
    ),
    Entry(
        "P215",
        "A node cannot encrypt its link",
        ("links must be encrypted (--link-encryption required)",),
        "Encryption takes Python 3.13 or later at both ends, with an OpenSSL that has TLS-PSK.",
        "Use a newer Python on that node, or leave out `--link-encryption required`: then "
        "messages are authenticated, but can be read on the network.",
    ),
    Entry(
        "P216",
        "Ranks do not know where to meet",
        (
            "machines, but not where ranks meet",
            "does not say where rank 0 is: write --master-addr HOST",
            "and each has an address of its own: write --master-addr",
        ),
        "Several machines are to be one job, and nothing says the address of machine 0.",
        "Write `--master-addr HOST` on all machines: the name or address of machine 0. With "
        "`--engine` this is not needed.",
    ),
    Entry(
        "P217",
        "The variables of mpirun or srun do not fit",
        (
            "srun's variables contradict each other",
            "srun's variables are not as Slurm writes them",
            "and its like contradict each other",
            "who has set these variables?",
            "has not numbered ranks machine by machine",
        ),
        "`procession run` was started under mpirun, mpiexec or srun, and reads its place from "
        "their variables. They are incomplete, or number ranks in another order than machine by "
        "machine.",
        "If this run has nothing to do with them, write `--nnodes 1`. Else let ranks be "
        "numbered machine by machine: `mpirun --map-by ppr:N:node`.",
    ),
)
