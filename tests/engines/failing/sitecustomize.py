"""Makes a node process fail when it is told to start ranks, as one of another version might."""

import sys

if "procession.engines.nodeprocess:command" in sys.orig_argv:
    from procession.engines import nodeprocess

    def fail(*_):
        raise LookupError("there is no such field")

    nodeprocess.NodeProcess._launch = fail
