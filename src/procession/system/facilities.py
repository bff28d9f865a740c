"""Errors that name the facility of the system that is missing or refused, and what helps."""

from __future__ import annotations

import errno
import os

REFUSED = (errno.EPERM, errno.EACCES, errno.ENOSYS, errno.EINVAL)


def named(facility: str, e: OSError) -> OSError:
    """Give the error that names a facility, if it is missing or refused; else the same one."""
    if e.errno not in REFUSED:
        return e
    return OSError(
        e.errno,
        f"{facility} is missing or refused here ({os.strerror(e.errno)}); `procession doctor` "
        "tells what works, and what helps",
    )
