"""What tests use of the engine for ssh."""

from seams import lazily

__getattr__ = lazily(
    {
        "procession.engines.ssh": "SshEngine",
        "procession.engines.ssh.commands": "ENDED FAULT check_options ssh_command why_ended",
        "procession.engines.ssh.hosts": "Host parse_hostfile parse_hosts ranks_of_each read_hosts",
        "procession.engines.ssh.node": "with_client",
    }
)
