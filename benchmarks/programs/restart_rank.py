"""A rank that has torch and, in its first life, either fails (rank 0) or waits to be ended.

restart_rank.py DIRECTORY: there each leaves when it began, and rank 0 when it failed.
"""

import sys

import torch
from notes import fail_once

torch.ones(1)
fail_once(sys.argv[1])
