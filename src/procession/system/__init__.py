"""System calls: one family of them per file.

May import values. Files that a rank or the forkserver imports use the standard library only. Start
reading at `eventloop` and `tree`.
"""
