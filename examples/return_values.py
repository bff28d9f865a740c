"""Pi by random points, on four ranks: `python examples/return_values.py`."""

import os
import random

import procession


def share_in_circle(points):
    generator = random.Random(os.environ["RANK"])
    hits = sum(generator.random() ** 2 + generator.random() ** 2 < 1 for _ in range(points))
    return hits / points


values = procession.run(share_in_circle, args=(100_000,), nproc=4)  # one value from each rank
print("by rank:", values)
print("pi is about", 4 * sum(values) / len(values))
