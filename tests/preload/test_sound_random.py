"""Random numbers, keys and names: each rank has its own, as fresh processes have."""

from sides import fresh, plain, same, sides

from support import require

STANDARD = """
import multiprocessing, random, secrets, tempfile, uuid

seen = {
    "random": random.random(),
    "state": hash(random.getstate()[1]),
    "system": random.SystemRandom().random(),
    "own": random.Random().random(),
    "secrets": secrets.token_hex(8),
    "uuid1": str(uuid.uuid1()),
    "uuid4": str(uuid.uuid4()),
    "temporary": next(tempfile._get_candidate_names()),
    "key": multiprocessing.current_process().authkey.hex(),
}
"""

NUMPY = """
import numpy, numpy.random
from numpy.random import rand, mtrand

seen = {
    "global": numpy.random.rand(),
    "by name": rand(),
    "normal": numpy.random.standard_normal(),
    "state": [int(n) for n in numpy.random.get_state()[1][:4]],
    "entropy": str(mtrand._rand._bit_generator.seed_seq.entropy),
    "generator": numpy.random.default_rng().random(),
    "RandomState": numpy.random.RandomState().rand(),
}
"""

SEEDED = """
import random
import numpy

random.seed(5)
numpy.random.seed(5)
seen = {
    "all": [random.random(), numpy.random.rand(), numpy.random.default_rng(5).random()],
}
"""


def test_the_standard_library(tmp_path):
    fresh(
        sides(tmp_path, STANDARD),
        *("random", "state", "system", "own", "secrets", "uuid1", "uuid4", "temporary", "key"),
    )


def test_numpy(tmp_path):
    require("numpy")
    found = sides(tmp_path, NUMPY)
    fresh(found, *found.cold[0].seen)


def test_a_seed_gives_what_it_gives_in_python(tmp_path):
    require("numpy")
    expected = same(sides(tmp_path, SEEDED))
    assert plain(tmp_path / "main.py").seen == expected.seen
