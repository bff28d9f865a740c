"""`python -m procession` is the command `procession`."""

import sys

if not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
    # `python -m` has put the current directory there: a `json.py` in it is not for us.
    del sys.path[0]

from procession.cli import command

command()
