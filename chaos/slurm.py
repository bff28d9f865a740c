"""A Slurm cluster on this machine, started as the tests of clusters start theirs."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from chaos.runner import ROOT


def lacks() -> str:
    """Tell what this machine lacks for one, "" for nothing."""
    try:
        clusters = _clusters()
    except ImportError as e:
        return f"the tests' extra is not installed: {e}"
    missing = clusters.missing_programs()
    return f"no {', '.join(missing)} (Debian packages slurm-wlm and munge)" if missing else ""


@contextlib.contextmanager
def two_nodes() -> Iterator[None]:
    """Start a cluster of two nodes, and let what is started in the meantime find it."""
    cluster = _clusters().SlurmCluster(2, prefix="chaos-")
    before = dict(os.environ)
    try:
        cluster.start()
        os.environ.update(cluster.env)
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
        cluster.stop()


def _clusters() -> Any:
    """Give the module of the tests that starts clusters."""
    if str(ROOT / "tests") not in sys.path:
        sys.path.append(str(ROOT / "tests"))
    return import_module("cluster.slurmcluster")
