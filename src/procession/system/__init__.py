"""One family of system calls per file."""
