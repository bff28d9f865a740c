"""How many native libraries this process has loaded so far. Standard library only.

The C library counts them, and tells each caller of `dl_iterate_phdr` (dl_iterate_phdr(3)). To list
them by /proc/self/maps takes a millisecond where there are hundreds.
"""

from __future__ import annotations

import ctypes


class _Told(ctypes.Structure):
    """struct dl_phdr_info: what is told of one library."""

    _fields_ = (
        ("address", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("headers", ctypes.c_void_p),
        ("count", ctypes.c_uint16),
        ("loaded", ctypes.c_ulonglong),
        ("unloaded", ctypes.c_ulonglong),
    )


_last: list[int] = [-1]


@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Told), ctypes.c_size_t, ctypes.c_void_p)
def _hear(told: ctypes._Pointer[_Told], size: int, _: int) -> int:  # pyright: ignore[reportPrivateUsage]
    _last[0] = told.contents.loaded if size >= ctypes.sizeof(_Told) else -1
    return 1  # the others say the same


def loads() -> int:
    """Count the libraries that were loaded, also those that are gone; -1 if nobody says it."""
    _last[0] = -1
    try:
        ctypes.CDLL(None).dl_iterate_phdr(_hear, None)
    except (AttributeError, OSError):
        return -1
    return _last[0]
