"""`--engine ssh` on machines with a real sshd, whose cables can be drawn."""

import os
import signal
import subprocess

import pytest

from chaos.processes import alive, children, command_line
from cluster.enginework import process_above
from conftest import until
from support import write

pytestmark = pytest.mark.timeout(180)
KEY = b"PROCESSION_AGENT_KEY="


PLACES = """
    import os, socket
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR")
    print(socket.gethostname(), *(os.environ[n] for n in names), os.getcwd(), flush=True)
"""


def test_ranks_of_all_hosts_are_one_group(ssh, tmp_path):
    script = write(tmp_path / "places.py", PLACES)
    done = ssh.run(*ssh.words("-n", "2", script.name), cwd=tmp_path)
    lines = sorted(line.split() for line in done.stdout.splitlines())
    assert [line[1:3] for line in lines] == [["n1", "0"], ["n1", "1"], ["n2", "2"], ["n2", "3"],
                                             ["n3", "4"], ["n3", "5"]]  # fmt: skip
    assert [line[0] for line in lines] == [f"[{r // 2}:{r}]" for r in range(6)]
    assert {line[4] for line in lines} == {"6"}
    (address,) = {line[6] for line in lines}
    assert not address.startswith("127.")  # other hosts must find node 0 there
    assert {line[7] for line in lines} == {str(tmp_path)}
    (said,) = done.stderr.splitlines()
    assert "as is set in GLOO_SOCKET_IFNAME, NCCL_SOCKET_IFNAME, TP_SOCKET_IFNAME" in said


def test_ranks_use_the_interface_by_which_the_hosts_are_reached(ssh, tmp_path):
    names = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "TP_SOCKET_IFNAME")
    show = f"import os; print(*(os.environ.get(n, '-') for n in {names}))"
    script = write(tmp_path / "show.py", show)
    env = {**os.environ, **dict.fromkeys(names, "of_the_head")}  # ssh does not carry it
    for more, seen in [
        ((), "uplink uplink uplink\n"),
        (("-x", "GLOO_SOCKET_IFNAME=own"), "own uplink uplink\n"),
    ]:
        done = ssh.run(*ssh.words("--prefix", "", *more, script), env=env)
        assert done.stdout == seen * 3


def test_counts_of_a_host_file_are_ranks(ssh, tmp_path):
    script = write(tmp_path / "places.py", PLACES)
    file = tmp_path / "nodes"
    file.write_text("n1\nn1\nn2\nn2\n")
    words = ssh.words(script)
    at = words.index("--hosts")
    del words[at : at + 2]
    env = {**os.environ, "PBS_NODEFILE": str(file)}
    done = ssh.run(*words, env=env)
    assert sorted(line.split()[1] for line in done.stdout.splitlines()) == ["n1", "n1", "n2", "n2"]


@pytest.fixture
def sleepers(tmp_path):
    """Ranks that write their pid, and a daemon's, and sleep."""
    return write(
        tmp_path / "sleeps.py",
        """
        import os, subprocess, sys, time
        daemon = subprocess.Popen(["setsid", "sleep", "600"])
        with open(f"pid_{os.environ['RANK']}.tmp", "w") as f:
            f.write(f"{os.getpid()} {daemon.pid}")
        os.rename(f.name, f"pid_{os.environ['RANK']}")
        time.sleep(600)
        """,
    )


def started(ssh, tmp_path, ranks, *words, **options):
    """Start a job of sleepers; gives it, and all pids, when all run."""
    job = ssh.popen(
        *ssh.words(*words, "sleeps.py"), cwd=tmp_path, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options,
    )  # fmt: skip
    files = [tmp_path / f"pid_{rank}" for rank in range(ranks)]
    until(lambda: all(f.exists() for f in files), "all ranks", 30)
    return job, [int(p) for f in files for p in f.read_text().split()]


@pytest.mark.usefixtures("sleepers")
def test_nothing_is_left_when_every_ssh_is_killed(ssh, tmp_path):
    job, pids = started(ssh, tmp_path, 6, "-n", "2")
    clients = [pid for pid in children(job.pid) if command_line(pid).startswith("ssh ")]
    for pid in clients:
        os.kill(pid, signal.SIGKILL)
    _, said = job.communicate(timeout=60)
    assert job.returncode != 0
    # The ranks of others may have ended before the loss of their own client was noticed.
    assert ") was lost" in said and all(f"on {node}" in said for node in ssh.nodes), said
    until(lambda: not any(map(alive, pids)), "the end of all ranks and daemons")


@pytest.mark.usefixtures("sleepers")
def test_a_stopped_node_process_is_killed_at_the_end(ssh, tmp_path):
    """Its lease has not run out yet when the job is over, and it obeys nobody."""
    job, pids = started(ssh, tmp_path, 3, "-n", "1", "--lease", "60")
    process = process_above(pids[0])
    os.kill(process, signal.SIGSTOP)
    job.send_signal(signal.SIGTERM)
    until(lambda: not any(map(alive, pids[2:])), "the end on the other hosts")
    job.send_signal(signal.SIGTERM)
    job.communicate(timeout=90)
    until(lambda: not any(map(alive, [process, *pids])), "the end on its host")


@pytest.mark.parametrize(
    ("hosts", "words", "said"),
    [
        (["n1", "nowhere.invalid"], [], "host nowhere.invalid: its name cannot be resolved"),
        (["n1"], ["--remote-python", "/no/python"], "/no/python (which is not there) on n1"),
        (["n1"], ["--remote-python", "/bin/false"], "/bin/false (which cannot import procession)"),
        (["stranger@n1"], [], "host stranger@n1: it refuses the log-in"),
    ],
)
def test_why_a_host_cannot_be_used(ssh, hosts, words, said):
    done = ssh.run(*ssh.words(*words, "true", hosts=hosts), check=False)
    assert done.returncode != 0
    assert said in done.stderr


def test_a_directory_that_a_host_does_not_have(ssh, tmp_path):
    script = tmp_path / "mount.sh"
    inside = tmp_path / "only_here"
    inside.mkdir()
    words = " ".join(f"'{w}'" for w in ssh.words("-n", "1", "true", hosts=["n1"]))
    # A mount that the daemons, which were started before, do not see.
    script.write_text(
        f"mount -t tmpfs none {inside} && mkdir {inside}/d && cd {inside}/d && {words}"
    )
    done = ssh.run("unshare", "--mount", "sh", script, check=False)
    assert done.returncode != 0
    assert f"n1 has no directory '{inside}/d'" in done.stderr


@pytest.mark.usefixtures("sleepers")
def test_the_key_is_in_no_command_line(ssh, tmp_path):
    job, _ = started(ssh, tmp_path, 3, "-n", "1")
    try:
        found = set()
        for pid in ssh.left():
            with open(f"/proc/{pid}/environ", "rb") as f:
                found |= {v for v in f.read().split(b"\0") if v.startswith(KEY)}
        (key,) = (v.removeprefix(KEY).decode() for v in found)  # the key of the job
        pids = map(int, filter(str.isdecimal, os.listdir("/proc")))
        assert not [pid for pid in pids if key in command_line(pid)]
    finally:
        job.terminate()
        job.communicate(timeout=60)
