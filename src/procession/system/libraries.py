"""The native libraries that this process has loaded, by file. Standard library only.

The C library lists them (dl_iterate_phdr(3)): that needs no descriptor and no /proc.
"""

from __future__ import annotations

import ctypes
import os


class _Told(ctypes.Structure):
    """The beginning of struct dl_phdr_info: what is told of one library."""

    _fields_ = (("address", ctypes.c_void_p), ("name", ctypes.c_char_p))


_Hear = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Told), ctypes.c_size_t, ctypes.c_void_p)


def loaded() -> frozenset[str]:
    """Give the files of all libraries that are loaded now."""
    names: set[bytes] = set()

    def hear(told: ctypes._Pointer[_Told], _size: int, _: int) -> int:  # pyright: ignore[reportPrivateUsage]
        names.add(told.contents.name or b"")
        return 0

    ctypes.CDLL(None).dl_iterate_phdr(_Hear(hear), None)
    return frozenset(map(os.fsdecode, names))
