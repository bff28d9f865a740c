"""What tests of ranks on XLA share: a clean environment, what was called, and a stand-in."""

import os

import pytest
from xlawork import STAND_IN

MEANT = ("XRT_", "PJRT_", "TPU_", "NEURON", "GPU_", "XLA_", "CLOUD_TPU", "GCE_METADATA")


@pytest.fixture(autouse=True)
def no_devices(monkeypatch):
    for name in list(os.environ):
        if name.startswith(MEANT):
            monkeypatch.delenv(name)


@pytest.fixture(name="said")
def said_by_ranks(tmp_path, monkeypatch):
    """The file of what ranks, and the stand-in in them, write down."""
    path = tmp_path / "calls"
    monkeypatch.setenv("XLA_CALLS", str(path))
    return path


@pytest.fixture(name="torch_xla")
def stand_in(monkeypatch):
    """Ranks find the stand-in for torch_xla."""
    monkeypatch.syspath_prepend(STAND_IN)


@pytest.fixture(name="v4_8")
def one_tpu_host(said, monkeypatch):
    """A TPU of one host with four chips, told by variables."""
    for name, value in {
        "PJRT_DEVICE": "TPU",
        "TPU_SKIP_MDS_QUERY": "1",
        "TPU_ACCELERATOR_TYPE": "v4-8",
        "TPU_WORKER_ID": "0",
    }.items():
        monkeypatch.setenv(name, value)
    return said


def of_ranks(env, *prefixes):
    return {n: v for n, v in env.items() if n.startswith(prefixes or ("XRT_",))}


def in_process(call, fn, **options):
    """Give a script that calls `spawn` or `launch` itself, and says how that ended."""
    return f"""
        import os, sys
        sys.path.insert(0, {os.path.dirname(__file__)!r})
        import procession.xla as xmp
        import xlawork

        try:
            xmp.{call}(xlawork.{fn}, **{options!r})
        except SystemExit as e:
            print("SystemExit", e.code, os.getpid(), flush=True)
            raise
        print("returned in", os.getpid())
    """
