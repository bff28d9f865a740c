"""Has a rank of another machine return 500 MB: large.py ENGINE LEASE."""

from __future__ import annotations

import os
import sys

SIZE = 500_000_000


def value() -> bytes:
    """Give a large value in the last rank, else a small one."""
    rank = os.environ["RANK"]
    return b"procession" * (SIZE // 10) if rank == "5" else rank.encode()


if __name__ == "__main__":
    import json

    import procession
    from procession.engines.ssh import SshEngine

    engine = sys.argv[1]
    if engine == "ssh":
        config = json.loads(os.environ["CHAOS_GROUND"])["config"]
        engine = SshEngine("n1,n2,n3", options=["-F", config])
    values = procession.run(value, engine=engine, nnodes=3, nproc=2, lease=float(sys.argv[2]))
    assert values[:5] == [b"%d" % n for n in range(5)], values[:5]
    assert values[5] == b"procession" * (SIZE // 10)
