"""ssh: hosts that OpenSSH's client reaches."""

from procession.engines.ssh.engine import SshEngine

__all__ = ["SshEngine"]
