"""A loop that goes like a training, without one: what `procession run --live` shows of it.

procession run -n 4 --live examples/training.py
procession run -n 64 --live examples/training.py --slow 17 --fail 40
"""

import argparse
import math
import os
import random
import time

import procession

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=1000)
parser.add_argument("--seconds", type=float, default=0.02, help="of a step")
parser.add_argument("--slow", type=int, help="this rank takes twice as long")
parser.add_argument("--fail", type=int, help="this rank fails half-way")
args = parser.parse_args()

rank = int(os.environ["RANK"])
random.seed(rank)
for step in range(1, args.steps + 1):
    time.sleep(args.seconds * (2 if rank == args.slow else 1))
    loss = 2.5 * math.exp(-3 * step / args.steps) + random.uniform(0, 0.1)
    procession.beat(step, args.steps, loss=loss)
    if step % (args.steps // 10 or 1) == 0:
        print(f"step {step}: loss {loss:.3f}", flush=True)
    if rank == args.fail and step == args.steps // 2:
        raise RuntimeError("the loss is no number")
