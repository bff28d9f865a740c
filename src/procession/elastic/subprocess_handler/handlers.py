"""Where the original has `get_subprocess_handler`."""

from procession.elastic.subprocess_handler import SubprocessHandler, get_subprocess_handler

__all__ = ["SubprocessHandler", "get_subprocess_handler"]
