"""Clusters for the tests: one on this machine's own network, and one whose cables can be drawn."""

import pytest

from cluster.raycluster import ray_cluster, ray_processes, ray_session  # noqa: F401 - fixtures
from cluster.slurmcluster import SlurmCluster
from cluster.sshcluster import SshCluster
from network import network


def pytest_generate_tests(metafunc):
    if "slurm_cluster" in metafunc.fixturenames:
        metafunc.parametrize("slurm_cluster", ["linuxproc", "pgid"], indirect=True)


def running(cluster):
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def used(cluster, monkeypatch):
    for name, value in cluster.env.items():
        monkeypatch.setenv(name, value)
    yield cluster
    cluster.clear()


@pytest.fixture(scope="session")
def slurm_cluster(request):
    """Four nodes that live as long as the test run: they are made before a test looks around.

    Tests run on one after another that differ in how Slurm tells which processes are a step's.
    """
    yield from running(SlurmCluster(proctrack=getattr(request, "param", "linuxproc")))


@pytest.fixture
def slurm(slurm_cluster, monkeypatch):
    """The cluster, idle and usable by this process; idle again afterwards."""
    yield from used(slurm_cluster, monkeypatch)


@pytest.fixture(scope="session")
def networked_cluster():
    """Three nodes, each with a network of its own, and so has the head, where commands run."""
    with network(4) as hosts:
        yield from running(SlurmCluster(3, hosts=hosts))


@pytest.fixture
def networked(networked_cluster, monkeypatch):
    yield from used(networked_cluster, monkeypatch)


@pytest.fixture(scope="session")
def ssh_machines():
    """Three machines with an sshd each, and the head, where commands run."""
    with network(4) as hosts:
        yield from running(SshCluster(hosts))


@pytest.fixture
def ssh(ssh_machines):
    """The machines, with nothing left on them from another test, nor from this one."""
    ssh_machines.wait_empty()
    yield ssh_machines
    ssh_machines.wait_empty()
