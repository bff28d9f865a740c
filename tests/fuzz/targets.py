"""What is fuzzed: for each parser its inputs, and what must hold whatever comes.

A target is a strategy and a check. The check may let out what the parser's docstring names, and
nothing else; what it accepts must be of the kinds that its callers count on.
"""

from framed import FRAMED
from worded import WORDED

TARGETS = {**FRAMED, **WORDED}
