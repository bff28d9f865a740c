"""The forkserver: parent and reaper of the ranks, its protocol, and the launcher's end of it.

May import worker, system and values; the server itself only what every rank may. Start reading at
`server`, and at `pool` for the launcher's end.
"""

from __future__ import annotations


def close() -> None:
    """End the forkservers that are idle between launches.

    They would end by themselves when this process ends, or after five minutes. The next
    launch starts a new one.
    """
    from procession.forkserver import pool

    pool.close()
