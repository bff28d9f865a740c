"""The forkserver: parent and reaper of the ranks, its protocol, and the launcher's end of it."""

from __future__ import annotations


def close() -> None:
    """End the forkservers that rest between launches.

    They would end by themselves when this process ends, or after five minutes of rest. The next
    launch starts a new one.
    """
    from procession.forkserver import pool

    pool.close()
