"""What tests use of what asks the kernel."""

from seams import lazily

__getattr__ = lazily(
    {
        "procession.system": (
            "accelerators directories eventloop files hugepages inotify "
            "memory_groups numa processes remains signals tree"
        ),
        "procession.system.accelerators": "Accelerators",
        "procession.system.cgroups": "Cgroups KILLS_OF_ALL OomWatch cgroups",
        "procession.system.eventloop": "EventLoop",
        "procession.system.identity": "own_mark",
        "procession.system.inotify": "Inotify",
        "procession.system.localities": "Gpu gpus",
        "procession.system.memory_groups": "MemoryGroups obstacle",
        "procession.system.numa": "read_cpus",
        "procession.system.origin": "same_session slurm_ids",
        "procession.system.ports": "free_port",
        "procession.system.probe": "TRIALS why_not",
        "procession.system.processes": "Seen state_of",
        "procession.system.threads": "Latch",
        "procession.system.vfork": "Chain",
    }
)
