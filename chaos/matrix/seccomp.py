"""Filters of seccomp, from names of calls to what the kernel takes; needs no library.

A filter is a short program for each system call, of four-byte fields: load, compare, jump, return.
Here it is a row of comparisons, each with its answer behind it; what passes all of them is allowed.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import json
import os
import platform
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from chaos.matrix.environment import Refusal

PROFILES = Path(__file__).with_name("profiles")
LOAD, AND, IS, ABOVE, HAS, RETURN = 0x20, 0x54, 0x15, 0x25, 0x45, 0x06
NUMBER, ARCHITECTURE, ARGUMENTS = 0, 4, 16  # where `struct seccomp_data` has them
X86_64 = 0xC000003E
ALLOW, ERROR = 0x7FFF0000, 0x00050000
SET_SECCOMP, FILTER, SET_NO_NEW_PRIVS = 22, 2, 38
MOST = 4096  # instructions

Instruction = tuple[int, int, int, int]  # code, how far to jump if it holds, if not, a number


class _Program(ctypes.Structure):
    _fields_ = (("len", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def lacks() -> str:
    """Say why there can be no filters here; "" if they can."""
    if platform.machine() != "x86_64":
        return f"the numbers of system calls are those of x86-64, not of {platform.machine()}"
    return ""


@functools.cache
def _calls() -> dict[str, Any]:
    return json.loads((PROFILES / "x86_64.json").read_text())


def profile(name: str) -> dict[str, Any]:
    """Read a profile: its source and version, what it refuses, and the capabilities it leaves."""
    return json.loads((PROFILES / f"{name}.json").read_text())


def refusals_of(name: str) -> list[Refusal]:
    """Give what a profile refuses."""
    given = profile(name)
    found = [Refusal(call, error) for error, calls in given["refused"].items() for call in calls]
    return found + [
        Refusal(e["call"], e["error"], e["argument"], e["refused"], tuple(e["values"]))
        for e in given["conditions"]
    ]


def program(refusals: Iterable[Refusal], unknown: str = "") -> list[Instruction]:
    """Make the program. unknown: the error for calls newer than the table, "" for none."""
    made: list[Instruction] = [(LOAD, 0, 0, ARCHITECTURE), (IS, 1, 0, X86_64)]
    made += [(RETURN, 0, 0, ALLOW), (LOAD, 0, 0, NUMBER)]
    for each in refusals:
        number, answer = _calls()["numbers"][each.call], (RETURN, 0, 0, _error(each.error))
        tests = _tests(each)
        if not tests:
            made += [(IS, 0, 1, number), answer]
            continue
        # Whoever is not meant jumps behind the last one, which loads the number again.
        made += [(IS, 0, len(tests) + 2, number), *tests, answer, (LOAD, 0, 0, NUMBER)]
    if unknown:
        made += [(ABOVE, 0, 1, _calls()["last"]), (RETURN, 0, 0, _error(unknown))]
    made.append((RETURN, 0, 0, ALLOW))
    if len(made) > MOST:
        raise ValueError(f"a filter of {len(made)} instructions; the kernel takes {MOST}")
    return made


def _tests(refusal: Refusal) -> list[Instruction]:
    """Look at an argument; goes on behind them if the call is refused, else one further."""
    values = refusal.values
    if not refusal.when:
        return []
    # Of an argument's 8 bytes, the lower 4.
    made: list[Instruction] = [(LOAD, 0, 0, ARGUMENTS + 8 * refusal.argument)]
    if refusal.when == "is not one of":
        return made + [(IS, len(values) - i, 0, v) for i, v in enumerate(values)]
    code = {"is one of": IS, "is above": ABOVE, "has a bit of": HAS}[refusal.when]
    last = len(values) - 1
    return made + [(code, last - i, int(i == last), v) for i, v in enumerate(values)]


def _error(name: str) -> int:
    return ERROR | int(getattr(errno, name))


def install(instructions: list[Instruction]) -> None:
    """Let the kernel apply a program to this process and all that it starts. Raises OSError."""
    text = b"".join(struct.pack("HBBI", *each) for each in instructions)
    held = ctypes.create_string_buffer(text)
    given = _Program(len(instructions), ctypes.addressof(held))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(SET_SECCOMP, FILTER, ctypes.byref(given), 0, 0):
        raise OSError(ctypes.get_errno(), f"seccomp: {os.strerror(ctypes.get_errno())}")
