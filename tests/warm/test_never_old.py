"""What is kept of imports is never used once anything has changed that decided them."""

import os
import random

import pytest
from importing import Importer
from tree import Tree

STEPS = int(os.environ.get("PROCESSION_FUZZ_STEPS", "100"))


def walk(importer, root, seed, steps):
    """Change a tree at random; each time compare what is kept with a cold import."""
    tree = Tree(root, seed)
    kept = imported = None
    used, why = 0, {}
    for step in range(steps):
        done = [tree.change() for _ in range(tree.random.choice((1, 1, 2, 3)))]
        reason = importer.reason(imported) if imported else "the first"
        cold, _ = importer.ask(tree.path, watched=False)
        if not reason:
            used += 1
            assert kept == cold, f"seed {seed}, step {step}: {done}"
        else:
            why[reason] = why.get(reason, 0) + 1
            if step % 2:
                tree.grow_old()  # or next to nothing could ever be used
            kept, imported = importer.ask(tree.path, watched=True)
            if not imported.fault:
                assert kept == cold, f"seed {seed}, step {step}, while watched: {done}"
    return used, why


@pytest.mark.timeout(120 + STEPS)
def test_fuzz(tmp_path):
    seed = int(os.environ.get("PROCESSION_FUZZ_SEED") or random.randrange(1 << 32))
    print(f"PROCESSION_FUZZ_SEED={seed} PROCESSION_FUZZ_STEPS={STEPS}")
    with Importer() as importer:
        used, why = walk(importer, tmp_path, seed, STEPS)
    print(f"used {used} of {STEPS}; faults: {sum('while' in w for w in why)}")
    assert used > STEPS // 10
