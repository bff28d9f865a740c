"""The loop that owns a run: it takes what happens to ranks, decides what starts again, and ends.

May import explain, machine and all that stands below. Start reading at `driver`, then `local`.
"""
