"""Ranks on several machines learn by which network interface their machine reaches the others."""

import contextlib
import os

import pytest
from commandline import PROCESSION, Watched

from network import ip, network
from seams.system import free_port
from support import write

pytestmark = pytest.mark.timeout(300)
NAMES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "TP_SOCKET_IFNAME")
SHOW = f"import os; print(*(os.environ.get(n, '-') for n in {NAMES}))"


@pytest.fixture(scope="module")
def machines():
    with network(2) as made:
        for host in made:  # another interface, by which nobody is reached, and which comes first
            ip("-n", host.name, "link", "add", "aside", "type", "bridge")
            ip("-n", host.name, "addr", "add", "10.99.0.1/24", "dev", "aside")
            ip("-n", host.name, "link", "set", "aside", "up")
            six = f"fd00:77::{host.number + 1}/64"
            ip("-n", host.name, "addr", "add", six, "dev", host.cable, "nodad", check=False)
        yield made


def shown(hosts, script, *words, env=None):
    env = {**{n: v for n, v in os.environ.items() if n not in NAMES}, **(env or {})}
    port = free_port()
    with contextlib.ExitStack() as open_:
        launchers = [
            open_.enter_context(
                Watched("run", "--lease", "40", "--nnodes", 2, *words_of(words, number, port),
                        "--prefix", "", script, program=host.command(*PROCESSION), env=env)
            )
            for number, host in enumerate(hosts)
        ]  # fmt: skip
        for each in launchers:
            assert each.end(100) == 0, bytes(each.err).decode()
        return [(bytes(e.out).decode().split(), bytes(e.err).decode()) for e in launchers]


def words_of(words, number, port):
    return [str(word).format(number=number, port=port) for word in words]


C10D = ("--rdzv-backend", "c10d", "--rdzv-endpoint", "10.213.77.1:{port}")
NUMBERED = ("--node-rank", "{number}", "--master-addr", "10.213.77.1", "--master-port", "{port}")
SIX_C10D = (*C10D[:2], "--rdzv-endpoint", "[fd00:77::1]:{port}")
SIX_NUMBERED = (*NUMBERED[:2], "--master-addr", "fd00:77::1", *NUMBERED[4:])


@pytest.mark.parametrize(
    "words",
    [C10D, NUMBERED, SIX_C10D, SIX_NUMBERED],
    ids=["c10d", "numbered", "c10d IPv6", "numbered IPv6"],
)
def test_ranks_use_the_interface_of_the_launchers(words, tmp_path, machines):
    script = write(tmp_path / "show.py", SHOW)
    for out, err in shown(machines, script, *words):
        assert out == ["uplink"] * 3
        assert err.count("machines reach each other by uplink") == 1


def test_what_the_user_has_set_stays(tmp_path, machines):
    script = write(tmp_path / "show.py", SHOW)
    words = (*C10D, "-x", "NCCL_SOCKET_IFNAME=mine", "-x", "TP_SOCKET_IFNAME=its")
    for out, err in shown(machines, script, *words, env={"GLOO_SOCKET_IFNAME": "own"}):
        assert out == ["own", "mine", "its"]
        assert "machines reach each other" not in err


def test_nothing_is_set_on_one_machine(tmp_path, machines):
    script = write(tmp_path / "show.py", SHOW)
    for out, err in shown([machines[0]] * 2, script, *C10D):
        assert out == ["-"] * 3
        assert "machines reach each other" not in err
