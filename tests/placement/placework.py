"""What ranks of these tests say of their place."""

import os
import resource


def place():
    """Give this process's CPUs, niceness, limit of data, and OMP_NUM_THREADS."""
    return {
        "cpus": sorted(os.sched_getaffinity(0)),
        "nice": os.getpriority(os.PRIO_PROCESS, 0),
        "data": resource.getrlimit(resource.RLIMIT_DATA),
        "threads": os.environ.get("OMP_NUM_THREADS"),
    }


def session_niceness():
    """Give the niceness of this process's session, None where there are no autogroups."""
    try:
        with open("/proc/self/autogroup") as f:
            return int(f.read().split()[-1])
    except (OSError, IndexError):
        return None


def hoard(megabytes):
    """Have so much memory."""
    return len(bytearray(megabytes << 20))
