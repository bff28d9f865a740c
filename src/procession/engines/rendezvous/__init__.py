"""One launcher is started on each machine by somebody else; here they find each other.

All are started with the same line, which names one address, as torchrun's lines do; or srun or
mpirun has started them, and its variables say who they are. The launcher on the machine with that
address opens a door there and becomes the driver of the job; the others come, and each runs the
ranks of its machine as a node process does on an engine. From then on everything is done by the
driver and the node processes of `procession.engines`.

`terms` says what is agreed on. `hosting` finds out who opens the door, `secret` how links prove who
they are, by a shared secret or by `munge`. `member` is the part that each launcher has, and
`succession` what follows when the host is lost; the host's part is `api.jobs`.

May import the rest of engines and all that stands below. Start reading at `terms`,
then `member`.
"""
