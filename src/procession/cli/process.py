"""What is so of the process of this command."""

from __future__ import annotations

leaves_surely = False  # it exits when its command is done: then nothing need be put back
