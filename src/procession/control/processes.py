"""The user's own processes, with their command lines and environments."""

from __future__ import annotations

import os

from procession.system.processes import Seen, processes


def read_processes() -> dict[int, Seen]:
    """Give the processes of this user that can be looked at, by pid, with `words` and `env`.

    Zombies are left out.
    """
    found: dict[int, Seen] = {}
    for pid, seen in processes().items():
        try:
            if os.stat(f"/proc/{pid}").st_uid != os.geteuid():
                continue
            # A process that has set its own title has overwritten its command line.
            line = _read(pid, "cmdline").rstrip("\0 ")
            words = tuple(word.rstrip() for word in line.split("\0")) if line else ()
            entries = (entry.partition("=") for entry in _read(pid, "environ").split("\0"))
            env = {name: value for name, equals, value in entries if equals}
        except OSError:
            continue  # it is gone, or has other privileges than this process
        found[pid] = seen.__replace__(words=words, env=env)
    return found


def _read(pid: int, name: str) -> str:
    with open(f"/proc/{pid}/{name}", "rb") as f:
        return f.read().decode(errors="replace")
