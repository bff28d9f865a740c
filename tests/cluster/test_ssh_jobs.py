"""`--engine ssh` on machines with a real sshd, whose cables can be drawn."""

import json
import os
import signal
import subprocess
import time

import pytest

from conftest import alive, until
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
    assert "GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME are set" in said


def test_ranks_use_the_interface_by_which_the_hosts_are_reached(ssh, tmp_path):
    names = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")
    show = f"import os; print(*(os.environ.get(n, '-') for n in {names}))"
    script = write(tmp_path / "show.py", show)
    env = {**os.environ, **dict.fromkeys(names, "of_the_head")}  # ssh does not carry it
    for more, seen in [
        ((), "uplink uplink\n"),
        (("-x", "GLOO_SOCKET_IFNAME=own"), "own uplink\n"),
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


def test_the_first_failure_ends_all_hosts_and_is_named(ssh, tmp_path):
    script = write(
        tmp_path / "fails.py",
        """
        import os, time
        if os.environ["RANK"] == "3":
            raise ValueError("no such batch")
        time.sleep(60)
        """,
    )
    began = time.monotonic()
    done = ssh.run(*ssh.words("-n", "2", script), check=False)
    assert done.returncode == 1
    assert "rank 3 of 6" in done.stderr
    assert "ValueError: no such batch" in done.stderr
    assert time.monotonic() - began < 30  # of the 60 that the others would have slept


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
    for pid in children_of(job.pid):
        os.kill(pid, signal.SIGKILL)
    _, said = job.communicate(timeout=60)
    assert job.returncode != 0
    assert all(f"({node}) was lost" in said for node in ssh.nodes)
    until(lambda: not any(map(alive, pids)), "the end of all ranks and daemons")


@pytest.mark.usefixtures("sleepers")
def test_a_stopped_agent_is_killed_at_the_end(ssh, tmp_path):
    """Its lease has not run out yet when the job is over, and it obeys nobody."""
    job, pids = started(ssh, tmp_path, 3, "-n", "1", "--lease", "60")
    agent = agent_above(pids[0])
    os.kill(agent, signal.SIGSTOP)
    job.send_signal(signal.SIGTERM)
    until(lambda: not any(map(alive, pids[2:])), "the end on the other hosts")
    job.send_signal(signal.SIGTERM)
    job.communicate(timeout=90)
    until(lambda: not any(map(alive, [agent, *pids])), "the end on its host")


@pytest.mark.usefixtures("sleepers")
def test_a_host_that_is_cut_off_ends_its_ranks_by_itself(ssh, tmp_path):
    job, pids = started(ssh, tmp_path, 3, "-n", "1", "--lease", "2")
    ssh.cut("n2")
    try:
        _, said = job.communicate(timeout=60)
        assert job.returncode != 0
        assert "n2" in said
        until(lambda: not any(map(alive, pids)), "the end of all ranks and daemons", 20)
    finally:
        ssh.mend("n2")


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
    began = time.monotonic()
    done = ssh.run(*ssh.words(*words, "true", hosts=hosts), check=False)
    assert done.returncode != 0
    assert said in done.stderr
    assert time.monotonic() - began < 60  # not the 300 s that a start may take


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
        (key,) = (v.removeprefix(KEY) for v in found)  # agents were started with it
        for name in filter(str.isdecimal, os.listdir("/proc")):
            try:
                with open(f"/proc/{name}/cmdline", "rb") as f:
                    assert key not in f.read()
            except OSError:
                pass
    finally:
        job.terminate()
        job.communicate(timeout=60)


def test_the_result_names_the_hosts(ssh, tmp_path):
    done = ssh.run(*ssh.words("--json", "-n", "1", "true"))
    result = json.loads(done.stdout)
    assert result["nodes"] == 3
    assert [rank["host"] for rank in result["ranks"]] == ["n1", "n2", "n3"]


def children_of(pid):
    """List the processes named ssh below a process."""
    found = []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", "rb") as f:
                head, _, rest = f.read().rpartition(b")")
            if int(rest.split()[1]) == pid and head.partition(b"(")[2] == b"ssh":
                found.append(int(name))
        except OSError:
            pass
    return found


def agent_above(pid):
    """Give the agent that a rank is below."""
    while pid > 1:
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            if b"procession.engines.agent" in f.read():
                return pid
        with open(f"/proc/{pid}/stat", "rb") as f:
            pid = int(f.read().rpartition(b")")[2].split()[1])
    raise AssertionError("no agent is above it")
