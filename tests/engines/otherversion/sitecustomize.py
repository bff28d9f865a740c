"""Makes a node process one of another version."""

import sys

if "procession.engines.nodeprocess:command" in sys.orig_argv:
    from procession.values import version

    version.__version__ = "0.0.7"
