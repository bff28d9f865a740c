"""What tests use of agents that are kept between runs."""

from seams import lazily

__getattr__ = lazily(
    {
        "procession.system.facts": "read_facts",
        "procession.system.directories": "inside open_runtime",
        "procession.values.spec": "read_warm",
        "procession.warm.templates": "Gone Unusable templates",
        "procession.warm.launching": "read_most",
    }
)
