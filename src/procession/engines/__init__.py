"""Groups over several machines: an engine gives nodes, and a node process on each runs its ranks.

`contract` says what an engine is, `registry` finds it by its name; `slurm`, `ray` and `ssh` are the
engines that come with procession. `driver` is the driver of such a group, in the user's process,
and `nodeprocess` runs on each node. `rendezvous` is for launchers that somebody has started on each
node.

May import group and all that stands below. Start reading at `contract`, then `driver` and
`nodeprocess`.
"""
