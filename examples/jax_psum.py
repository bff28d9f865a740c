"""A sum over ranks with JAX on the CPU: 1 + 2 + 3 + 4 is 10.

procession run -n 4 examples/jax_psum.py
"""

import os

os.environ["JAX_PLATFORMS"] = "cpu"  # read when jax is imported

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

import procession.jax

RANK, WORLD_SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def main():
    procession.jax.initialize()

    # One array over all ranks, of which each rank holds one item.
    mesh = jax.make_mesh((WORLD_SIZE,), ("ranks",))
    by_rank = NamedSharding(mesh, PartitionSpec("ranks"))
    own = np.array([RANK + 1.0], dtype=np.float32)
    values = jax.make_array_from_process_local_data(by_rank, own)

    @jax.jit
    @jax.shard_map(mesh=mesh, in_specs=PartitionSpec("ranks"), out_specs=PartitionSpec())
    def add(value):
        return jax.lax.psum(value, "ranks")

    total = float(add(values)[0])
    print(f"psum {total}", flush=True)
    jax.distributed.shutdown()
    if total != WORLD_SIZE * (WORLD_SIZE + 1) / 2:
        raise SystemExit(f"wrong sum: {total}")


if __name__ == "__main__":
    main()
