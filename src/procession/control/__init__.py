"""Seeing and steering a run from another terminal.

A run that can be seen has a Unix socket in the user's runtime directory; the socket's name is the
id of the run. The loop of the run watches the socket, and gives each client a thread (`reach`,
`serve`). A client asks line by line (`ask`). Living runs are found by their sockets, and those that
have ended by links to their directories (`index`, `runs`). What killed launchers have left behind
is recognised by the environment variables of processes (`leftover`).

May import what stands below `group`, whose `Group` it is given. Start reading at `reach`.
"""
