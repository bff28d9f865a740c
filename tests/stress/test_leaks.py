"""A process that launches group after group does not grow.

PROCESSION_STRESS_LEAKS (480): groups in a row, after those that fill the caches.
"""

import itertools
import json
import os
from pathlib import Path

import pytest

from support import run_python

GROUPS = int(os.environ.get("PROCESSION_STRESS_LEAKS", "480"))
QUARTER = GROUPS // 4
WORK = Path(__file__).with_name("leakwork.py")
# A group, and more of it is a leak: of what the collector sees, each object counts. Blocks are also
# those of caches that fill slowly, pages also those of memory that is in pieces.
MOST = {"resident kB": 4.0, "blocks": 2.0}
MOST_OBJECTS = 0.5

pytestmark = [pytest.mark.long, pytest.mark.timeout(200 + 2 * GROUPS)]


@pytest.mark.parametrize("kind", ["script", "failure", "fork"])
def test_nothing_grows_with_the_number_of_groups(kind, tmp_path):
    script = tmp_path / "quick.py"
    done = run_python(WORK, kind, GROUPS, script, timeout=180 + 2 * GROUPS)
    assert done.returncode == 0, done.stderr
    looks = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(looks) == 5
    pairs = list(itertools.pairwise(looks))
    # A leak grows in each quarter; what is made once does so in one.
    grown = {
        what: min(after.get(what, 0) - before.get(what, 0) for before, after in pairs) / QUARTER
        for what in looks[-1]
    }
    print(f"\n{kind}: {GROUPS} groups, {grown['resident kB']:.2f} kB each at the least")
    assert {w: n for w, n in grown.items() if n >= MOST.get(w, MOST_OBJECTS)} == {}
