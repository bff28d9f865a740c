"""The launcher's way to agents that are kept from one command to the next, as templates.

The next launch that would make the same imports takes one. Without `--warm` nothing of this is
imported.

May import agent, system and values. Start reading at `launching`, then `templates`, then
`agent.template`, which is what an agent does about it.
"""

from __future__ import annotations
