"""Where the original has `SubprocessHandler`."""

from procession.elastic.subprocess_handler import SubprocessHandler

__all__ = ["SubprocessHandler"]
