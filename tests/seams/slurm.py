"""What tests use of the engine for Slurm."""

from seams import lazily

__getattr__ = lazily(
    {
        "procession.engines.slurm.engine": "Slurm",
        "procession.engines.slurm.allocation": "Allocation Task expand read_allocation read_task",
        "procession.engines.slurm.commands": (
            "BECOME read_ends read_line read_lost step_command step_environment"
        ),
        "procession.engines.slurm.processes": "Step fact",
    }
)
