"""The version of the package; nodes compare it, and `--version` shows it."""

__version__ = "0.1.0"
