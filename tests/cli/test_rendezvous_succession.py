"""The host of an elastic job is lost: the machines that are left go on without it."""

import contextlib
import os
import signal

import pytest
from commandline import KEY, PATIENCE, PROCESSION, STEPS, Watched

from conftest import until
from network import network
from seams.system import free_port
from support import write

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def machines():
    with network(3) as made:
        yield made


@pytest.fixture
def training(tmp_path):
    (tmp_path / "log.hold").touch()
    return write(tmp_path / "steps.py", STEPS), tmp_path / "log"


@contextlib.contextmanager
def launched(hosts, nnodes, *words, lease=40):
    """The same line on each host; the first one hosts the rendezvous."""
    line = ["run", "--lease", lease, "--nnodes", nnodes, "--rdzv-id", "J", "--rdzv-backend", "c10d",
            "--rdzv-conf", "last_call_timeout=90",
            "--rdzv-endpoint", f"{hosts[0].address}:{free_port()}"]  # fmt: skip
    env = {**os.environ, **KEY}
    with contextlib.ExitStack() as open_:
        yield [
            open_.enter_context(
                Watched(*line, "--local-addr", host.address, *words,
                        program=host.command(*PROCESSION), env=env)
            )
            for host in hosts
        ]  # fmt: skip


def counted(log):
    """Give the steps that count, and with how many machines; each is there, and once."""
    steps = [each.split() for each in log.read_text().splitlines()]
    found = dict(steps)  # a step that was written, but not kept, is done again
    assert [*map(int, found)] == [*range(1, len(found) + 1)]
    assert len(steps) - len(found) <= 2
    return [size for _, size in steps]


def test_the_host_is_killed(machines, training):
    """A training goes on from its checkpoint, on the machines that are left, and can fail there."""
    script, log = training
    with launched(machines, "1:3", script, log) as (first, second, third):
        first.shows(b"rank 0 of 3 from step False, 0", patience=PATIENCE)
        until(log.exists, "it counts", PATIENCE)
        first.signal(signal.SIGKILL)
        second.shows(b"rank 0 of 2 from step True, 0", patience=PATIENCE)
        third.shows(b"rank 1 of 2 from step True, 0", patience=PATIENCE)
        # Until the host knows that the ranks of both run, it needs the others, too.
        until(lambda: log.read_text().count(" 2\n") > 50, "both run", PATIENCE)
        third.signal(signal.SIGKILL)  # of two machines, the host goes on
        until(lambda: log.read_text().endswith(" 1\n"), "it goes on", PATIENCE)
        log.with_name("log.hold").unlink()
        assert second.end(PATIENCE) == 0, second.err
    assert counted(log)[-1] == "1"
    for each in (second, third):
        said = bytes(each.err)
        assert b"procession: node 0 (" in said
        assert b"which hosts the rendezvous, is lost (its connection " in said
        assert b"; if enough nodes remain, they continue" in said
    at = machines[1].address.encode()
    assert b"this machine hosts the rendezvous now, at " + at in second.err
    assert b"hosts the rendezvous now" not in third.err


@pytest.mark.long
def test_the_network_is_cut(machines, training):
    """The side of the host has one machine of three, and ends; the other has two, and goes on."""
    script, log = training
    with launched(machines, "1:3", script, log, lease=8) as (first, second, third):
        first.shows(b"rank 0 of 3 from step False, 0", patience=PATIENCE)
        until(log.exists, "it counts", PATIENCE)
        machines[0].cut()
        assert first.end(PATIENCE) == 1
        last = len(log.read_text().splitlines())
        assert b"1 of the last 3 machines are in contact, and the others may go on" in first.err
        second.shows(b"rank 0 of 2 from step True, 0", patience=PATIENCE)
        machines[0].mend()
        log.with_name("log.hold").unlink()
        assert (second.end(PATIENCE), third.end(PATIENCE)) == (0, 0), second.err
    sizes = counted(log)
    assert {*sizes[:last]} == {"3"}
    assert {*sizes[last:]} <= {"2"}


@pytest.mark.parametrize("nnodes", ["1:3", "3"])
def test_a_host_that_cannot_be_succeeded_ends_all(machines, tmp_path, nnodes):
    """Two machines are too few for an election, and a job of fixed size has none."""
    script = write(tmp_path / "wait.py", "import time; print('here', flush=True); time.sleep(100)")
    hosts = machines[: 2 if ":" in nnodes else 3]
    most = nnodes.replace("3", str(len(hosts)))
    with launched(hosts, most, script) as (first, *others):
        for each in (first, *others):
            each.shows(b"here", patience=PATIENCE)
        first.signal(signal.SIGKILL)
        for each in others:
            assert each.end(PATIENCE) == 1
            assert b"wait.py was ended here: node 0 (" in each.err
            assert b"which hosts the rendezvous, is lost (its connection " in each.err
