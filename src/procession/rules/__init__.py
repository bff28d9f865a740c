"""The rules, pure: which state follows which event, and when a failed group or rank restarts.

`lifecycle` and `tables` are for the ranks of a machine, `joblife` and `jobwords` for the machines
of a job.

May import values. Start reading at `lifecycle`, then `tables`.
"""
