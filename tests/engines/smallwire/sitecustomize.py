"""Makes a node process believe that messages must be small."""

import sys

if "procession.engines.nodeprocess:command" in sys.orig_argv:
    from procession.engines import wire

    wire.LARGEST = 50_000
