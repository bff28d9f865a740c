"""The machine as it is."""

from __future__ import annotations

from chaos.matrix.cell import Cell

# What a machine may lack of its own.
MAY = ("oom_kill", "rank_cgroups", "proc_children", "close_range", "shm", "open_files", "quota")

CELLS = {"plain": Cell("this machine as it is", may=MAY, bare=True)}
