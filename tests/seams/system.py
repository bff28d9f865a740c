"""What tests use of what asks the kernel."""

from seams import lazily

__getattr__ = lazily(
    {
        "procession.system": (
            "accelerators deaths directories eventloop files hugepages inotify killgroup memory "
            "memory_groups numa probe processes procstate remains signals tree"
        ),
        "procession.system.accelerators": "Accelerators",
        "procession.system.cgroups": "Cgroups cgroups own_place",
        "procession.system.eventloop": "EventLoop",
        "procession.system.identity": "own_mark start_of",
        "procession.system.inotify": "Inotify",
        "procession.system.latch": "Latch",
        "procession.system.localities": "Gpu gpus",
        "procession.system.memory": "OomWatch",
        "procession.system.memory_groups": "MemoryGroups obstacle",
        "procession.system.numa": "read_cpus",
        "procession.system.origin": "same_session slurm_ids",
        "procession.system.ports": "free_port",
        "procession.system.processes": "Seen",
        "procession.system.procstate": "state_of",
        "procession.system.remains": "Remains",
        "procession.system.vfork": "Chain",
    }
)
