"""Agents that are kept from one command to the next, with what they have imported.

A small process of the user, the keeper, holds the sockets of agents whose run is over. The
next launch that would make the same imports takes one from there. Without `--warm` nothing of this
is imported.

May import agent, system and values. Start reading at `launching`, the launcher's side, then
`keeper`, then `agent.kept`, which is what an agent does about it.
"""

from __future__ import annotations
