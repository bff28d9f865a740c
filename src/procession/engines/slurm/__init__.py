"""Slurm: nodes of an allocation. Start reading at `engine`."""
