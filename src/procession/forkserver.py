"""The processes that are kept between launches, as their users see them."""

from __future__ import annotations


def close() -> None:
    """End the agents that are idle between launches.

    They would end by themselves when this process ends, or after five minutes. The next
    launch starts a new one.
    """
    from procession.agent import pool

    pool.close()
