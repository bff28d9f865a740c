"""What tests use of agents that are kept between runs."""

from seams import lazily

__getattr__ = lazily(
    {
        "procession.system.facts": "read_facts",
        "procession.system.directories": "inside open_runtime",
        "procession.values.spec": "read_warm",
        "procession.warm.client": "Connection",
        "procession.warm.door": "NAME NoKeeper",
        "procession.warm.launching": "read_limits",
        "procession.warm.wire": "Unusable decode",
    }
)
