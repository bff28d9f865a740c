"""A running program, and where its output goes."""

from __future__ import annotations

from procession.elastic.subprocess_handler.handlers import get_subprocess_handler
from procession.elastic.subprocess_handler.subprocess_handler import SubprocessHandler

__all__ = ["SubprocessHandler", "get_subprocess_handler"]
