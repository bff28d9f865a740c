"""Says which rank it is; with a word, that rank fails."""

import os
import sys
import time

rank = os.environ["RANK"]
if rank in sys.argv[1:]:
    raise ValueError("no such batch")
print(f"hello from {rank}")
while sys.argv[1:]:
    time.sleep(0.1)  # for the one that fails
