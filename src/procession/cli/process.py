"""What is so of the process of this command."""

from __future__ import annotations

# In the environment of a detached launcher: a descriptor; see `detached`.
TOLD = "PROCESSION_TOLD"

leaves_surely = False  # it exits when its command is done: then nothing need be put back
