"""JAX on the CPU: a group of its own by jax.distributed, and its end when a rank fails."""

import importlib.util
import os
import pathlib
import threading
import time

import pytest

import procession
from support import failure_of, run_procession, write

pytestmark = [
    pytest.mark.jax,
    pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="JAX is not installed"),
]


@pytest.mark.long
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
            raise ValueError("no more data")
        multihost_utils.sync_global_devices("never")
        """,
    )
    # JAX's preemption service swallows SIGTERM: the group gets SIGKILL after the grace.
    done = run_procession(*("run", "-n", 2, "--shutdown-timeout", 3, script), timeout=55)
    assert done.returncode == 1, done.stderr
    report = done.stderr[done.stderr.index("fail.py failed: ") :]
    assert "rank 1 of 2" in report.splitlines()[0]
    assert "raised ValueError: no more data" in report.splitlines()[0]
    assert "ended by the group:\n  rank 0" in report


def join():
    """Make this rank part of one JAX system, and wait for the others."""
    os.environ["JAX_PLATFORMS"] = "cpu"
    import procession.jax

    procession.jax.initialize()
    from jax.experimental import multihost_utils

    multihost_utils.sync_global_devices("all are here")
    return multihost_utils


def listening_on(port):
    """Give the addresses, as the kernel writes them, on which somebody listens at this port."""
    found = []
    for table in ("tcp", "tcp6"):
        with open(f"/proc/net/{table}") as lines:
            for line in list(lines)[1:]:
                _, local, _, state = line.split()[:4]
                address, _, number = local.partition(":")
                if state == "0A" and int(number, 16) == port:
                    found.append(address)
    return found


def add_up():
    join()
    places = listening_on(int(os.environ["MASTER_PORT"]))
    import jax
    import numpy as np
    from jax.sharding import NamedSharding, PartitionSpec

    rank, world_size = int(os.environ["RANK"]), jax.process_count()
    assert (jax.process_index(), jax.device_count()) == (rank, world_size)
    mesh = jax.make_mesh((world_size,), ("ranks",))
    own = np.array([rank + 1.0], dtype=np.float32)
    spread = NamedSharding(mesh, PartitionSpec("ranks"))
    values = jax.make_array_from_process_local_data(spread, own)

    @jax.jit
    @jax.shard_map(mesh=mesh, in_specs=PartitionSpec("ranks"), out_specs=PartitionSpec())
    def add(value):
        return jax.lax.psum(value, "ranks")

    return float(add(values)[0]), places


def test_four_ranks_add_up_on_the_loopback():
    values = procession.run(add_up, nproc=4, timeout=50)
    assert [total for total, _ in values] == [10.0] * 4
    # 127.0.0.1, also as an address of IPv6
    for _, places in values:
        assert places
        assert all(place.endswith("0100007F") for place in places), places


def fail(who, how):
    multihost_utils = join()
    if int(os.environ["RANK"]) == who:
        how()
    multihost_utils.sync_global_devices("never")


def linger():
    """Stay until the peers are gone, so that only the launcher can tell them that this one failed.

    Else they may notice the end of a connection before the signal comes to them.
    """
    parent = os.getppid()

    def wait():
        while len(pathlib.Path(f"/proc/{parent}/task/{parent}/children").read_text().split()) > 1:
            time.sleep(0.001)

    threading.Thread(target=wait).start()


def out_of_data():
    linger()
    raise ValueError("no more data")


def quit_with_3():
    linger()
    raise SystemExit(3)


@pytest.mark.parametrize(
    ("who", "how", "code", "nproc"),
    [
        (0, out_of_data, 1, 4),  # it hosts what the others wait at
        pytest.param(3, out_of_data, 1, 4, marks=pytest.mark.long),
        pytest.param(1, quit_with_3, 3, 2, marks=pytest.mark.long),
    ],
)
def test_a_rank_that_fails_ends_the_group_at_once(who, how, code, nproc):
    """The stop signal ends the others, and nothing waits at the exit, for SIGKILL or for peers."""
    failed = failure_of(fail, args=(who, how), nproc=nproc)
    assert (failed.cause.rank, failed.cause.exit.code) == (who, code)
    assert failed.cause.type_name == ("SystemExit" if code == 3 else "ValueError")
    assert [end.exit.signal for end in failed.ended] == [15] * (nproc - 1)


def test_a_script_says_its_last_words(tmp_path):
    """What ends a failed rank early loses nothing that it printed or logged."""
    script = write(
        tmp_path / "words.py",
        """
        import atexit, logging.handlers, os, sys
        os.environ["JAX_PLATFORMS"] = "cpu"
        import procession.jax

        target = logging.StreamHandler(sys.stdout)
        logging.getLogger().addHandler(logging.handlers.MemoryHandler(100, target=target))
        procession.jax.initialize()
        atexit.register(print, "an exit handler")
        from jax.experimental import multihost_utils
        multihost_utils.sync_global_devices("all are here")
        if os.environ["RANK"] == "0":
            logging.warning("logged late")
            raise ValueError("no more data")
        multihost_utils.sync_global_devices("never")
        """,
    )
    done = run_procession("run", "-n", 2, script, timeout=55)
    assert done.returncode == 1
    assert "[0] an exit handler" in done.stdout
    assert "[0] logged late" in done.stdout
    assert done.stderr.count("ValueError: no more data") >= 2  # on the console, in the report
