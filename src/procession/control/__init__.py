"""Seeing and steering a run from another terminal.

A run that can be seen has a Unix socket in the user's runtime directory (`place`, `door`), named by
its id. Its launcher opens the door and does no more: the first client that knocks wakes the
supervisor once, which starts the thread that serves clients (`serve`) and forgets the socket. A
client asks line by line (`protocol`, `ask`). Runs are found by their sockets, and those that
ended by a short index of directories (`index`, `runs`). What is left of launchers that were killed,
and the groups of other launchers, are told by what stands in the environment of processes
(`processes`, `foreign`, `leftover`).
"""
