"""A rank that notes when its process began, and when it had torch: stage_rank.py DIRECTORY"""

import json
import os
import sys
import time

import torch

torch.ones(1)
imported = time.monotonic()
with open("/proc/self/stat") as stat:  # field 22: when it was forked, in ticks
    forked = int(stat.read().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
with open(os.path.join(sys.argv[1], str(os.getpid())), "w") as file:
    json.dump({"forked": forked, "imported": imported}, file)
