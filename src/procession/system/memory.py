"""Whether the kernel killed a process for want of memory."""

from __future__ import annotations


def oom_kills() -> int | None:
    """Give how many processes the kernel has killed for want of memory since it started.

    It counts the whole machine and every memory cgroup (`oom_kill` in /proc/vmstat, Linux 4.13).
    None where it cannot be read.
    """
    try:
        with open("/proc/vmstat", "rb") as f:
            text = f.read()
    except OSError:
        return None
    at = text.find(b"\noom_kill ")
    if at < 0:
        return None
    return int(text[at + 10 :].split(None, 1)[0])
