"""The rules, pure: which state follows which event, and when a failed group or rank restarts.

May import values. Start reading at `lifecycle`, then `tables`.
"""
