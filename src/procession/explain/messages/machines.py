"""Messages about jobs on several machines: P201 and on."""

from __future__ import annotations

from procession.explain.messages.entry import Entry

MACHINES = (
    Entry(
        "P201",
        "There is no such engine",
        (
            "there is no engine",
            " cannot be imported: ",
            ", which is ours",
        ),
        "`--engine` names what gives the machines: slurm, ray, ssh, or one that an installed "
        "package adds.",
        "Check the spelling, and that the package that brings the engine is installed in this "
        "Python.",
    ),
    Entry(
        "P202",
        "Not inside an allocation of Slurm",
        ("not in an allocation of Slurm",),
        "The engine for Slurm works inside a job: in a script for sbatch, or in the "
        "shell of salloc.",
        "Run it there, or type the `sbatch` line that the message has.",
    ),
    Entry(
        "P203",
        "More nodes are asked for than there are",
        (
            "nodes are asked for, but the allocation (job",
            "nodes are asked for, but srun has started",
            "the number of hosts is",
            " leave none for ranks",
            "spare nodes of Slurm are those",
            "there is no node for another agent",
            "does not start a launcher again that was lost",
            "is for machines that procession asks for",
        ),
        "`--nnodes`, with the spare nodes, is more than the allocation or the list of hosts has.",
        "Ask for more nodes (`sbatch --nodes`), name more hosts, or say a smaller `--nnodes`. What "
        "srun or mpirun has started beyond `--nnodes` is spare.",
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
        ("launchers need it to trust each other by MUNGE",),
        "`--rdzv-conf munge=1` has MUNGE, which Slurm itself uses, tell which user a launcher "
        "belongs to. Its commands are not on the PATH of this machine.",
        "Install the package munge on all machines, or give the launchers a secret: "
        "`PROCESSION_JOB_KEY`, or `--rdzv-conf key_file=FILE`.",
    ),
    Entry(
        "P206",
        "The commands of Slurm are missing",
        ("the commands of Slurm are needed",),
        "`--engine slurm` calls srun, scontrol and squeue.",
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
            "it is neither a regular file nor a pipe",
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
            "it cannot be reached",
            "ssh does not take its options",
            "the connection to ",
            "its log-in ended without starting an agent",
        ),
        "`ssh HOST true` does not work from here without a question: the name is not known, no "
        "ssh server answers, or a key is missing. Or the log-in prints or exits before it runs a "
        "command.",
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
        (
            "cannot reach the driver",
            "does not say where the driver is",
        ),
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
        (
            "links must be encrypted (--link-encryption required)",
            "link encryption ",
        ),
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
    Entry(
        "P218",
        "The number of this machine does not fit",
        (
            " has started this command ",
            ", and cannot have ",
            "but the machines are numbered 0 to ",
            " would number them by itself",
            "let it be the Job's completions",
            "a range is for machines that find each other",
        ),
        "What options, variables, and who started this command say about the machines of the job "
        "is not the same: how many there are, or which one this is.",
        "Write what the message proposes. `--nnodes` is the number of machines, `--node-rank` "
        "counts from 0, and `-n` is the number of ranks on each machine.",
    ),
    Entry(
        "P219",
        "There is no such rendezvous",
        ("there is no rendezvous ", "procession needs no server of etcd", "known are "),
        "`--rdzv-backend` is static or c10d, and `--rdzv-conf` has few words. What is not known "
        "is refused, since it would not be obeyed.",
        "`--rdzv-backend c10d --rdzv-endpoint HOST:PORT` on each machine, with the address of "
        "one of them.",
    ),
    Entry(
        "P220",
        "The secret of a job cannot be used",
        (" bytes, and could be guessed", "key_file "),
        "The secret by which launchers know each other is too short, cannot be read, or can be "
        "changed by other users.",
        "`openssl rand -hex 32 >job.key; chmod 600 job.key`, the same file on all machines.",
    ),
    Entry(
        "P221",
        "Launchers did not meet",
        (
            "this launcher is to host the rendezvous at",
            "could not be started: no rendezvous at",
            ": write the same on all",
        ),
        "The machine whose address all were given cannot listen there (something else does), or "
        "nobody listens there, or the network does not let the connection through. Or the lines "
        "differ: the number of machines and the backend must be the same on all.",
        "Start the line on the machine that `--rdzv-endpoint` names, and see that its port can "
        "be reached from the others; choose another port if it is taken. Compare the lines if the "
        "message says so.",
    ),
    Entry(
        "P222",
        "Ray cannot give what is asked for",
        (
            "is no address of a Ray cluster",
            "is connected to another Ray already",
            "Ray Client cannot be used",
            "is given by cpus= and gpus=",
            "Ray needs to know at least one",
            "Ray counts whole ones",
            "one node is the least",
            "how many nodes of the Ray cluster?",
            "Ray: ",
            "closed while it waited for a node",
        ),
        "The address, the number of nodes or the resources are not as Ray takes them.",
        "Write what the message proposes; docs/ray.md has the options.",
    ),
    Entry(
        "P223",
        "The allocation cannot be used",
        (
            " is heterogeneous: it has ",
            "Slurm's list of ",
            "its tasks are not spread evenly",
            "Slurm started no agent",
        ),
        "The job has nodes or tasks of different kinds, or an option of Slurm's that procession "
        "cannot follow.",
        "Ask for nodes that are all alike, and name tasks and GPUs by node: docs/slurm.md.",
    ),
    Entry(
        "P224",
        "A credential of MUNGE is not believed",
        ("a credential of another ", "munge=1 does not go with a secret"),
        "Launchers show credentials of MUNGE, and take those of the same user and job only. A "
        "secret takes its place.",
        "See that `munge` works on all nodes (`munge -n | ssh NODE unmunge`).",
    ),
    Entry(
        "P225",
        "A command of the engine failed",
        (" cannot be started: ", " did not answer within ", " ended with an error: "),
        "srun, sbatch, scontrol, munge, ssh or the helper of Ray could not be started, ended with "
        "an error, or did not answer. The message has its own last words.",
        "Run that command by hand in the same shell; mend what it says.",
    ),
    Entry(
        "P226",
        "An option of ssh is not allowed here",
        ("it would have ssh do something else",),
        "The option would keep ssh from running the one command by which a machine is reached.",
        "Leave it out. Addresses, users, keys and ports can stand in ~/.ssh/config.",
    ),
    Entry(
        "P227",
        "Several programs of srun ask for the same engine",
        ("and each would drive a job over the whole allocation",),
        "`srun` has started a Python program several times, and each calls `procession.run` with "
        '`engine="slurm"`, which starts ranks on all nodes of the allocation.',
        "Start the program once: `python program.py` in the batch script. Or start one on each "
        "node, and let them find each other with `rendezvous=`.",
    ),
)
