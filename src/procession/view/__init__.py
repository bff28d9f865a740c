"""What is seen of a running group, for people: a live view on a terminal, and a line of status.

All of it lives on `look()`, the plain data of `procession.looking`, so that it works in another
process, too. Nothing here is imported by a launch that does not ask for it.
"""
