"""What tests use of what asks the kernel."""

from seams import lazily

__getattr__ = lazily(
    {
        "procession.system": (
            "accelerators directories eventloop inotify memory_groups numa prctl processes tree"
        ),
        "procession.system.accelerators": "Accelerators",
        "procession.system.cgroups": "Cgroups OomWatch cgroups",
        "procession.system.eventloop": "EventLoop",
        "procession.system.identity": "own_mark",
        "procession.system.memory_groups": "MemoryGroups",
        "procession.system.numa": "read_cpus",
        "procession.system.origin": "slurm_ids",
        "procession.system.ports": "free_port",
        "procession.system.processes": "ProcessInfo below state_of",
        "procession.system.remains": "Remains",
        "procession.system.vfork": "Chain",
    }
)
