"""The loop that owns a run: it takes what happens to ranks, decides what starts again, and ends.

`local` is that of a group on this machine, `job` that of a group on several machines.

May import engines, machine and all that stands below. Start reading at `driver`, then `local`.
"""
