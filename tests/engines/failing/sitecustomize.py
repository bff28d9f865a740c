"""Makes an agent fail when it is told to start ranks, as one of another version might."""

import sys

if "procession.engines.agent:command" in sys.orig_argv:
    from procession.engines import agent

    def fail(*_):
        raise LookupError("there is no such field")

    agent.Agent._launch = fail
