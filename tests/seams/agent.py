"""What tests use of the agent."""

from seams import lazily

__getattr__ = lazily(
    {
        "procession.agent": (
            "beforestop channels children forking limits order owner protocol run server stacks"
        ),
        "procession.agent.beforestop": "BeforeStop",
        "procession.agent.imported": "Imported clock",
        "procession.agent.channels": "Channel",
        "procession.agent.client": "Agent",
        "procession.agent.forking": "Forking",
        "procession.agent.limits": "Limits",
        "procession.agent.protocol": "Receiver Sender ancillary encode",
        "procession.agent.server": "Server",
        "procession.machine": "link",
        "procession.machine.machine": "Machine",
    }
)
