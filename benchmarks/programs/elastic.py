"""Ranks by torch's elastic `start_processes`, as its documentation has it."""

from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, start_processes


def start(n, logs, entrypoint, *args, prefixes=None, **specs):
    """Start n times a program; specs: of the logs."""
    return start_processes(
        name="benchmark",
        entrypoint=entrypoint,
        args=dict.fromkeys(range(n), args),
        envs={rank: {"RANK": str(rank), "WORLD_SIZE": str(n)} for rank in range(n)},
        logs_specs=DefaultLogsSpecs(log_dir=logs, **specs),
        log_line_prefixes=prefixes,
    )
