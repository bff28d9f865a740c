"""`Group` and `Result`: a running group as its user holds it, and what it shares with jobs.

May import control, driver, explain, prepare and all that stands below. Start reading at
`handle`, then `group`.
"""
