"""Whether this process exits when its command is done: then nothing need be put back."""

from __future__ import annotations

surely = False
