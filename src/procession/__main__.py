"""`python -m procession` is the command `procession`."""

import sys

from procession.cli import main

sys.exit(main())
