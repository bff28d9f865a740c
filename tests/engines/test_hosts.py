"""Lists of hosts and host files, as people and batch systems write them."""

import os
import threading

import pytest

from seams.ssh import Host, parse_hostfile, parse_hosts, ranks_of_each, read_hosts
from seams.values import SpecError


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("h1", [Host("h1")]),
        ("h1,h2:8", [Host("h1"), Host("h2", 8)]),
        (" h1 , user@h2.example.org:4 ", [Host("h1"), Host("user@h2.example.org", 4)]),
        ("[::1]:2,[fe80::1%eth0]", [Host("[::1]", 2), Host("[fe80::1%eth0]")]),
        ("h1:2,h1:3", [Host("h1", 5)]),
        ("h1,h1,h2", [Host("h1", 2), Host("h2", 1)]),
    ],
)
def test_a_list(text, hosts):
    assert list(parse_hosts(text)) == hosts


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "names no host"),
        (",", "names no host"),
        ("-oProxyCommand=x", "is no host"),
        ("h1 h2", "is no host"),
        ("h1;reboot", "is no host"),
        ("h1:0", "no count of ranks"),
        ("h1:x", "is no host"),
        ("$(id)", "is no host"),
    ],
)
def test_no_list(text, said):
    with pytest.raises(SpecError, match=said):
        parse_hosts(text)


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("h1\nh2\n", [Host("h1"), Host("h2")]),  # one rank each, if nobody says otherwise
        ("h1\nh1\nh2\nh2\n", [Host("h1", 2), Host("h2", 2)]),  # PBS, LSF
        ("# ours\n\nh1 slots=4 max_slots=8\nh2 slots=4 # big\n", [Host("h1", 4), Host("h2", 4)]),
        ("h1:4\nh2:4\n", [Host("h1", 4), Host("h2", 4)]),  # MPICH
        ("n1 8 all.q@n1 UNDEFINED\nn2 8 all.q@n2 UNDEFINED\n", [Host("n1", 8), Host("n2", 8)]),
    ],
)
def test_a_file(text, hosts):
    assert list(parse_hostfile(text, "FILE")) == hosts


@pytest.mark.parametrize(
    ("text", "said"),
    [("h1\n-x\n", "line 2: '-x' is no host"), ("h1 h2\n", "line 1: 'h2' is no count")],
)
def test_a_fault_in_a_file_has_its_line(text, said):
    with pytest.raises(SpecError, match=f"--hostfile f, {said}"):
        parse_hostfile(text, "--hostfile f")


def test_which_list_counts(tmp_path):
    file = tmp_path / "nodes"
    file.write_text("h7\nh7\n")
    assert read_hosts("h1", "", {"PBS_NODEFILE": str(file)}) == (Host("h1"),)
    assert read_hosts("", str(file), {}) == (Host("h7", 2),)
    assert read_hosts("", "", {"LSB_DJOB_HOSTFILE": str(file)}) == (Host("h7", 2),)
    with pytest.raises(SpecError, match="cannot go together"):
        read_hosts("h1", str(file), {})
    with pytest.raises(SpecError, match="on which hosts"):
        read_hosts("", "", {})
    with pytest.raises(SpecError, match=r"PE_HOSTFILE: cannot read '/nowhere'"):
        read_hosts("", "", {"PE_HOSTFILE": "/nowhere"})


def test_a_host_file_is_a_file_or_a_pipe_with_an_end(tmp_path):
    with pytest.raises(SpecError, match="it is longer than"):
        read_hosts("", "/dev/zero", {})
    with pytest.raises(SpecError, match="Is a directory"):
        read_hosts("", str(tmp_path), {})
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=("h1\nh2\n",))
    writer.start()
    assert read_hosts("", str(pipe), {}) == (Host("h1"), Host("h2"))
    writer.join()


def test_ranks_of_each():
    assert ranks_of_each([Host("h1"), Host("h2")]) == 0
    assert ranks_of_each([Host("h1", 3), Host("h2", 3)]) == 3
    with pytest.raises(SpecError, match=r"h2: 2, h1: 3.*say how many with -n"):
        ranks_of_each([Host("h1", 3), Host("h2", 2)])
