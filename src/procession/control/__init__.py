"""Seeing and steering a run from another terminal.

A run that can be seen has a Unix socket in the user's runtime directory (`directories`, `door`);
the socket's name is the id of the run. The launcher listens there and does no more: the first
client wakes the loop once (`reach`), which starts the thread that serves clients (`serve`) and
forgets the socket. A client asks line by line (`protocol`, `ask`). Living runs are found by their
sockets, and those that have ended by a short index of directories (`index`, `runs`). What killed
launchers have left behind, and the groups of other launchers such as torchrun, are recognised by
the environment variables of processes (`processes`, `foreign`, `leftover`).

May import what stands below `group`: it knows a run as a `Reachable` only. Start reading at
`reachable`.
"""
