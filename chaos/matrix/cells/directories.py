"""Directories that are missing, or that nobody may write to or execute from."""

from __future__ import annotations

from chaos.matrix.cell import Cell
from chaos.matrix.environment import Environment, Mount

OWN = Mount("bind", "{place}", "{place}")  # so that it can be changed by itself
WRITABLE = Mount("bind", "{place}/tmp", "{place}/tmp")
ALL_READ_ONLY = (OWN, Mount("read-only", "{place}"), Mount("read-only", "/"))

CELLS = {
    "read_only_root": Cell(
        "a read-only root, only TMPDIR can be written to",
        Environment(("mount",), (OWN, WRITABLE, *ALL_READ_ONLY[1:])),
        ("state",),
    ),
    "read_only_everywhere": Cell(
        "a read-only root, and nothing else to write to",
        Environment(("mount",), ALL_READ_ONLY),
        ("state", "control", "tmp"),
        needed=True,
    ),
    "noexec_tmp": Cell(
        "TMPDIR on a file system with noexec",
        Environment(("mount",), (Mount("tmpfs", "{place}/tmp", options="mode=0700,noexec"),)),
    ),
    "no_tmpdir": Cell(
        "TMPDIR names a directory that is not there",
        Environment(variables={"TMPDIR": "{place}/gone"}),
    ),
    "no_sockets": Cell(
        "XDG_RUNTIME_DIR cannot be written to",
        Environment(
            ("mount",),
            (Mount("tmpfs", "{place}/runtime", options="ro"),),
            variables={"XDG_RUNTIME_DIR": "{place}/runtime"},
        ),
        ("control",),
    ),
    "no_home": Cell("no HOME", Environment(variables={"HOME": None})),
    "home_is_missing": Cell(
        "HOME names a directory that cannot be made",
        Environment(variables={"HOME": "/proc/no-home"}),
        ("state",),
    ),
    "home_read_only": Cell(
        "HOME cannot be written to",
        Environment(
            ("mount",),
            (Mount("bind", "{place}/home", "{place}/home"), Mount("read-only", "{place}/home")),
        ),
        ("state",),
    ),
    "no_shm": Cell(
        "/dev/shm cannot be written to, and has no room",
        Environment(("mount",), (Mount("tmpfs", "/dev/shm", options="ro,size=4k"),)),
        ("shm",),
    ),
}
