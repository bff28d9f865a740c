"""What ranks of these tests say of their place."""

import os
import resource


def place():
    """Give this process's CPUs, limit of data, and OMP_NUM_THREADS."""
    return {
        "cpus": sorted(os.sched_getaffinity(0)),
        "data": resource.getrlimit(resource.RLIMIT_DATA),
        "threads": os.environ.get("OMP_NUM_THREADS"),
    }


def hoard(megabytes):
    """Have so much memory."""
    return len(bytearray(megabytes << 20))
