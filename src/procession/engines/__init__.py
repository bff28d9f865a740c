"""Groups over several machines: an engine gives nodes, and a node process on each runs its ranks.

`contract` says what an engine is, and finds it by its name; `slurm`, `ray` and `ssh` are the
engines that come with procession. `nodeprocess` runs on each node, and talks to the driver over a
`link`. `rendezvous` is for launchers that were started one on each node.

May import machine and all that stands below. Start reading at `contract`, then `nodeprocess`.
"""
