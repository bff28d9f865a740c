"""System calls: one family of them per file.

May import values. Files that a rank or the agent imports use the standard library only. Start
reading at `eventloop` and `tree`.
"""
