"""`run`, `start` and `start_on`: from what a caller asks to a running group or job.

May import engines, group and all that stands below. Start reading at `launch`.
"""
