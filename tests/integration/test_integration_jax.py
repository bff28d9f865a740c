"""JAX on the CPU: a group of its own by jax.distributed, and its end when a rank fails."""

import importlib.util
import time

import pytest

from support import run_python, write

pytestmark = [
    pytest.mark.jax,
    pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="JAX is not installed"),
]
SOON = 15.0  # seconds from a failure to the end; without a launcher JAX takes 100 to 300


def test_failure_ends_ranks_that_wait_in_jax(tmp_path):
    script = write(
        tmp_path / "fail.py",
        """
        import os
        os.environ["JAX_PLATFORMS"] = "cpu"
        import jax
        from jax.experimental import multihost_utils

        rank = int(os.environ["RANK"])
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(
            coordinator_address=f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}",
            num_processes=int(os.environ["WORLD_SIZE"]),
            process_id=rank,
            cluster_detection_method="deactivate",
        )
        multihost_utils.sync_global_devices("all are here")
        if rank == 1:
            import time
            print("fails at", time.monotonic(), flush=True)
            raise ValueError("no more data")
        multihost_utils.sync_global_devices("never")
        """,
    )
    # JAX's preemption service swallows SIGTERM: the group gets SIGKILL after the grace.
    done = run_python(
        *("-m", "procession", "run", "-n", 2, "--shutdown-timeout", 3, script), timeout=55
    )
    ended_at = time.monotonic()
    assert done.returncode == 1, done.stderr
    report = done.stderr[done.stderr.index("fail.py failed: ") :]
    assert "rank 1 of 2" in report.splitlines()[0]
    assert "raised ValueError: no more data" in report.splitlines()[0]
    assert "ended by the group:\n  rank 0" in report
    failed_at = float(done.stdout.partition("fails at ")[2].split()[0])
    assert ended_at - failed_at < SOON
