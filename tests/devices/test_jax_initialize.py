"""`procession.jax.initialize`: what it says to JAX, for which something stands in, and refuses."""

import atexit
import sys
from types import ModuleType, SimpleNamespace

import pytest

import procession.jax
from seams.values import ProcessionError

RANK = {
    "RANK": "2",
    "WORLD_SIZE": "4",
    "LOCAL_RANK": "2",
    "LOCAL_WORLD_SIZE": "4",
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "20123",
}


class Config:
    """Settings as JAX has them: those that exist can be updated."""

    def __init__(self, **values):
        vars(self).update(values)

    def update(self, name, value):
        assert hasattr(self, name)
        setattr(self, name, value)


@pytest.fixture
def rank(monkeypatch):
    """Make this process look like a rank; gives a function that initializes, and the config."""
    for name in ("JAX_LOCAL_DEVICE_IDS", "JAX_COORDINATOR_BIND_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("JAX_ENABLE_PREEMPTION_SERVICE", raising=False)
    for name, value in RANK.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(atexit, "register", lambda call: call)
    told = {}
    config = Config(jax_enable_preemption_service=True, jax_cpu_collectives_implementation=None)
    fake = ModuleType("jax")
    fake.config = config
    fake.distributed = SimpleNamespace(initialize=lambda **words: told.update(words))
    monkeypatch.setitem(sys.modules, "jax", fake)

    def initialize(**words):
        procession.jax.initialize(**words)
        return told

    return SimpleNamespace(initialize=initialize, config=config)


def test_what_is_said(rank):
    assert rank.initialize() == {
        "coordinator_address": "127.0.0.1:20123",
        "coordinator_bind_address": "127.0.0.1:20123",
        "num_processes": 4,
        "process_id": 2,
        "local_device_ids": [2],
        "cluster_detection_method": "deactivate",
    }
    assert rank.config.jax_enable_preemption_service is False
    assert rank.config.jax_cpu_collectives_implementation == "gloo"


def test_the_callers_keywords_come_first(rank):
    words = {
        "local_device_ids": [0, 1],
        "coordinator_bind_address": "0.0.0.0:1",
        "initialization_timeout": 5,
    }
    told = rank.initialize(**words)
    assert {name: told[name] for name in words} == words


def test_jax_own_variables_come_first(rank, monkeypatch):
    monkeypatch.setenv("JAX_LOCAL_DEVICE_IDS", "3")
    monkeypatch.setenv("JAX_COORDINATOR_BIND_ADDRESS", "[::]:5")
    monkeypatch.setenv("JAX_ENABLE_PREEMPTION_SERVICE", "1")
    rank.config.jax_cpu_collectives_implementation = "mpi"
    told = rank.initialize()
    assert not {"local_device_ids", "coordinator_bind_address"} & told.keys()
    assert rank.config.jax_enable_preemption_service is True
    assert rank.config.jax_cpu_collectives_implementation == "mpi"


@pytest.mark.parametrize(
    ("host", "address", "bound"),
    [
        ("10.0.0.7", "10.0.0.7:20123", False),
        ("localhost", "localhost:20123", True),
        ("::1", "[::1]:20123", True),
        ("fd00::7", "[fd00::7]:20123", False),
    ],
)
def test_addresses(rank, monkeypatch, host, address, bound):
    monkeypatch.setenv("MASTER_ADDR", host)
    told = rank.initialize()
    assert told["coordinator_address"] == address
    assert told.get("coordinator_bind_address") == (address if bound else None)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        *((name, None, f"{name} is not set here: start this with") for name in list(RANK)[:2]),
        ("RANK", "x", "RANK='x' is not a number"),
        ("RANK", "4", "RANK=4 is no rank of a group with WORLD_SIZE=4"),
        ("WORLD_SIZE", "0", "WORLD_SIZE=0"),
        ("MASTER_PORT", "-1", "MASTER_PORT='-1' is not a number"),
        ("LOCAL_RANK", "", "LOCAL_RANK is not set here"),
    ],
)
def test_nonsense(rank, monkeypatch, name, value, said):
    if value is None:
        monkeypatch.delenv(name)
    else:
        monkeypatch.setenv(name, value)
    with pytest.raises(ProcessionError, match=said):
        rank.initialize()
