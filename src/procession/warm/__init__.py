"""Forkservers that are kept from one command to the next, with what they have imported.

A small process of the user, the keeper, holds the sockets of forkservers whose run is over. The
next launch that would make the same imports takes one from there. Without `--warm` nothing of this
is imported.

May import forkserver, system and values. Start reading at `launching`, the launcher's side, then
`keeper`, then `forkserver.kept`, which is what a forkserver does about it.
"""

from __future__ import annotations
