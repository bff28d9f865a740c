"""`Group` and `Result`: a running group as its user holds it, on one machine or several.

May import control, driver, explain, prepare and all that stands below. Start reading at
`group`.
"""
