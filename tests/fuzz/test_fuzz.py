"""Parsers, with whatever may come: a short form, and `make fuzz SECONDS=600`.

PROCESSION_FUZZ_SECONDS: for each target; without it, so many inputs that it takes about a second.
PROCESSION_FUZZ_SEED: of the inputs. What once failed is kept in `corpus/`, and is tried first.
"""

import os
import random
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.database import DirectoryBasedExampleDatabase
from targets import TARGETS

SECONDS = float(os.environ.get("PROCESSION_FUZZ_SECONDS", "0"))
AT_ONCE = 1000 if SECONDS else 100
CORPUS = Path(__file__).with_name("corpus")

pytestmark = pytest.mark.timeout(120 + 2 * SECONDS)


def fuzz(name, number):
    """Try inputs; gives how many there were."""
    strategy, check = TARGETS[name]
    tried = [0]

    @seed(number)
    @settings(
        max_examples=AT_ONCE,
        deadline=None,
        database=DirectoryBasedExampleDatabase(CORPUS / name),
        phases=[Phase.reuse, Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
        print_blob=True,
    )
    @given(strategy)
    def one(value):
        tried[0] += 1
        check(value)

    one()
    return tried[0]


@pytest.mark.long
@pytest.mark.parametrize("name", TARGETS)
def test_whatever_comes(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first = int(os.environ.get("PROCESSION_FUZZ_SEED") or random.randrange(1 << 32))
    began, tried = time.monotonic(), 0
    while not tried or time.monotonic() - began < SECONDS:
        print(f"PROCESSION_FUZZ_SEED={first}", flush=True)
        tried += fuzz(name, first)
        first += 1
    print(f"{name}: {tried} inputs, {time.monotonic() - began:.0f} s")
