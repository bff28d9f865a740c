"""What fuzzing has found, each as an input that its target must take."""

import pytest
from targets import TARGETS

HUGE, LONG = 10**400, "9" * 5000
HEIR = ["n", "h", "a", 1, True]
ENV = {"PJRT_DEVICE": "TPU", "TPU_ACCELERATOR_TYPE": "v4-16", "TPU_WORKER_ID": LONG}
WILL = {"world": [], "attempt": float("inf"), "regrouped": 0}
FOUND = {
    "a port that is infinite": ("rendezvous", (["n", "h", "a", float("inf"), True], None)),
    "a time to wait that is no time": ("rendezvous", ([*HEIR, HUGE], None)),
    "an attempt that is infinite": ("rendezvous", (None, WILL)),
    "a rank of 5,000 digits": ("std", f"{LONG}:1"),
    "a count of 5,000 digits": ("xrt", {"XRT_LOCAL_WORKER": "w:1", "XRT_SHARD_WORLD_SIZE": LONG}),
    "a worker of 5,000 digits": ("pjrt", ENV),
    "a port, a limit and a host's ranks of 5,000 digits": ("texts", LONG),
    "a host with ranks of 5,000 digits": ("texts", f"h:{LONG}"),
    "a failure at no time": ("error_files", b'{"message": "m", "timestamp": Infinity}'),
    "a failure in the year 10,000": ("error_files", b'{"message": "m", "timestamp": 1e12}'),
    "a failure at a time without an end": (
        "error_files",
        b'{"message": {"message": "m", "extraInfo": {"timestamp": 1e300}}}',
    ),
}


@pytest.mark.parametrize("name", FOUND)
def test_found(name):
    target, given = FOUND[name]
    _, check = TARGETS[target]
    check(given)
    assert target in TARGETS
